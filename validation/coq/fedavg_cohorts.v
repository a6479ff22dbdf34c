(** FedAvg with a cohort and one local step, that is stochastic gradient descent over clients: how
    far the model is from the optimum after T rounds, for all steps below 2/L, every N and P and all
    convex L-smooth losses. *)
From Coq Require Import Reals Lra Lia.
From Fedtheory Require Import facts cohorts.
From Theorems Require Import round feddyn.
Open Scope R_scope.

(** * Definitions *)

(** One round with [K] local steps: the mean of the members' models. *)
Definition fedavg_round {E : space} N P (step : R) (K : nat) (g : nat -> E -> E)
    (who : cohort) (x : E) : E :=
  cohort_mean N P who (fun k => descent step g k x K).

(** By how much the squared distance grows in a round at most, where gradients at the optimum have
    the mean square 1. *)
Definition growth N P L step :=
  2 * sampling_spread N P * step ^ 2 / (2 - sampling_spread N P * step * L).

(** * Theorems *)
Theorem fedavg_round_distance N P L step :
  (1 <= P)%nat -> (P <= N)%nat -> 0 < L -> 0 < step -> step * L < 2 ->
  forall (E : space) (C : cohorts N P) (f : nat -> E -> R) (g : nat -> E -> E) (xs x : E),
  losses N 0 L f g xs ->
  expected C (fun who => ||fedavg_round N P step 1 g who x - xs||^2)
  <= ||x - xs||^2 + growth N P L step * mean N (fun k => ||g k xs||^2).
Proof.
  intros HP HN HL Hs H2 E C f g xs x Lo. pose proof (some_clients _ _ _ _ _ _ Lo) as some.
  unfold fedavg_round. unfold growth.
  rewrite (sampling_from C HP some (fun k => descent step g k x 1)).
  set (r := sampling_spread N P).
  assert (Hr : 0 <= r <= 1) by (pose proof (spread_is N P HP HN); unfold r; lra).
  set (u := fun k => (g k x - g k xs)%vec). set (U := vmean N u).
  assert (flat : forall z, inner (vmean N (fun k => g k xs)) z = 0).
  { intros z. rewrite (flat N L f g xs some HL (smooth_losses _ _ _ _ _ _ Lo) (optimum _ _ _ _ _ _
    Lo)). apply inner_zero. }
  set (y := fun k => descent step g k x 1).
  change (fun k => ||descent step g k x 1 - vmean N y||^2) with (fun k => ||y k - vmean N y||^2).
  assert (Y : alike (vmean N y) (x - step * U)%vec).
  { intros z. rewrite inner_vmean. unfold y; cbn [descent].
  rewrite (mean_ext N _ (fun k => <<x, z>> - step * (inner (u k) z + inner (g k xs) z))).
    - rewrite mean_minus, mean_const, mean_times, mean_plus, <- !inner_vmean, flat by assumption.
    unfold U; expand; lra.
    - intros; unfold u; expand; lra. }
  assert (Dv : mean N (fun k => ||y k - vmean N y||^2) = step ^ 2 * mean N (fun k => ||(u k - U)
    + g k xs||^2)).
  { rewrite <- mean_times. apply mean_ext; intros k _.
  transitivity (||-(1) * step * ((u k - U) + g k xs)||^2).
    - apply same_square. intros z. rewrite inner_sub, Y. unfold y, u; cbn [descent]. expand; lra.
    - rewrite !inner_scale, !inner_scale_r; lra. }
  rewrite Dv. clear Dv.
  assert (Y2 : ||vmean N y - xs||^2 = ||x - xs||^2 - 2 * step * << U, x - xs >>
    + step ^ 2 * ||U||^2).
  { rewrite (same_square _ ((x - xs) - step * U)%vec) by (intros z; rewrite inner_sub, Y; expand;
    lra).
    expand. rewrite ?(inner_sym x U), ?(inner_sym xs U). lra. }
  rewrite Y2. clear Y2.
  (* what convexity says *)
  assert (Co : mean N (fun k => ||u k||^2) <= L * << U, x - xs >>).
  { unfold U. rewrite inner_vmean, <- mean_times. apply (mean_le N some); intros k Hk.
    pose proof (between N L f g HL (smooth_losses _ _ _ _ _ _ Lo) k x xs Hk) as A.
    pose proof (between N L f g HL (smooth_losses _ _ _ _ _ _ Lo) k xs x Hk) as B.
    assert (I : forall q, q = L * (2 * (/ (2 * L) * q))) by (intros; field; lra).
    rewrite (I ||u k||^2).
    apply Rmult_le_compat_l; [lra|]. unfold u. expand. rewrite ?(inner_sym (g k x) (g k xs)) in *.
    lra. }
  set (d := fun k => (u k - U)%vec).
  assert (Sp : mean N (fun k => ||u k||^2) = ||U||^2 + mean N (fun k => ||d k||^2)).
  { rewrite (mean_ext N (fun k => ||d k||^2) (fun k => ||u k||^2 - 2 * inner (u k) U + ||U||^2)).
    - rewrite mean_plus, mean_minus, mean_times, <- inner_vmean, mean_const by assumption. fold U.
    lra.
    - intros; unfold d; expand. rewrite (inner_sym U (u k)); lra. }
  (* the square that is left of the deviations *)
  set (c := 2 * r * step ^ 2 / (2 - r * step * L)).
  assert (0 < step * L) by (apply Rmult_lt_0_compat; assumption).
  assert (r * (step * L) <= 1 * (step * L)) by (apply Rmult_le_compat_r; lra).
  assert (Hd : 0 < 2 - r * step * L) by lra.
  assert (Sq : r * step ^ 2 * mean N (fun k => ||d k + g k xs||^2)
    <= 2 * step / L * mean N (fun k => ||d k||^2) + c * mean N (fun k => ||g k xs||^2)).
  { rewrite <- !mean_times, <- mean_plus. apply (mean_le N some); intros k _.
    pose proof (inner_pos ((2 - r * step * L)%R * d k - (r * step * L)%R * g k xs)%vec) as Q.
    expand. rewrite (inner_sym (g k xs) (d k)) in *. unfold c.
    set (dd := inner (d k) (d k)) in *. set (dg := inner (d k) (g k xs)) in *.
    set (gg := inner (g k xs) (g k xs)) in *.
    apply Rmult_le_reg_l with (L * (2 - r * step * L)); [nra|].
    replace (L * (2 - r * step * L) * (2 * step / L * dd
      + 2 * r * step ^ 2 / (2 - r * step * L) * gg))
      with (2 * step * (2 - r * step * L) * dd + 2 * r * step ^ 2 * L * gg) by (field; lra).
    nra. }
  change (fun k => ||u k - U + g k xs||^2) with (fun k => ||d k + g k xs||^2).
  assert (0 <= ||U||^2) by apply inner_pos.
  assert (G : 2 * step / L * mean N (fun k => ||u k||^2) <= 2 * step * << U, x - xs >>).
  { apply Rmult_le_reg_l with L; [lra|]. replace (L * (2 * step / L * mean N (fun k => ||u
    k||^2))) with (2 * step * mean N (fun k => ||u k||^2)) by (field; lra). nra. }
  rewrite Sp in G. assert (step ^ 2 * ||U||^2 <= 2 * step / L * ||U||^2).
  { apply Rmult_le_compat_r; [assumption|]. apply Rmult_le_reg_l with L; [lra|]. field_simplify;
    [nra | lra]. }
  lra.
Qed.

Theorem fedavg_distance N P L step :
  (1 <= P)%nat -> (P <= N)%nat -> 0 < L -> 0 < step -> step * L < 2 ->
  forall (E : space) (C : cohorts N P) (f : nat -> E -> R) (g : nat -> E -> E) (xs : E),
  losses N 0 L f g xs -> forall (T : nat) (x : E),
  later C (fedavg_round N P step 1 g) T (fun z => ||z - xs||^2) x
  <= ||x - xs||^2 + INR T * (growth N P L step * mean N (fun k => ||g k xs||^2)).
Proof.
  intros HP HN HL Hs H2 E C f g xs Lo.
  set (c := growth N P L step * mean N (fun k => ||g k xs||^2)).
  induction T; intros x; [simpl; lra|]. rewrite S_INR. cbn [later].
  pose proof (fedavg_round_distance N P L step HP HN HL Hs H2 E C f g xs x Lo) as F. fold c in F.
  assert (I : expected C (fun who => later C (fedavg_round N P step 1 g) T (fun z => ||z - xs||^2)
    (fedavg_round N P
    step 1 g who x))
    <= expected C (fun who => ||fedavg_round N P step 1 g who x - xs||^2 + INR T * c))
      by (apply expected_le; intros; apply IHT).
  rewrite expected_plus, expected_const in I. lra.
Qed.
Print Assumptions fedavg_distance.
