(** FedAvg of everybody for every number of local steps: the potential ||x - xs||^2 falls by the
    gaps at the averages of the local models, up to the heterogeneity at the optimum. *)
From Coq Require Import Reals Lra Lia.
From Fedtheory Require Import facts methods_defined.
From Theorems Require Import round feddyn feddyn_rate scaffold_rate.
Open Scope R_scope.

(** * Definitions *)

(** The average of the local models before step j. *)
Definition average_model {E : space} N (step : R) (g : nat -> E -> E) (x : E) (j : nat) : E :=
  vmean N (fun k => descent step g k x j).
(** What multiplies the mean square of the gradients at the optimum in a round. *)
Definition noise L step K :=
  step ^ 3 * L * (INR K * (INR K - 1) * (2 * INR K - 1))
  / (3 * (2 - step ^ 2 * L ^ 2 * (INR K * (INR K - 1)))).

(** * Proof *)
Section Round.
  Context {E : space} (N : nat) (L step : R) (f : nat -> E -> R) (g : nat -> E -> E) (xs x : E).
  Hypothesis L_pos : 0 < L.
  Hypothesis step_pos : 0 < step.
  Hypothesis short : step * L <= 1.
  Hypothesis of_losses : losses N 0 L f g xs.
  Let some := some_clients _ _ _ _ _ _ of_losses.
  Let y (j k : nat) : E := descent step g k x j.
  Let Y (j : nat) : E := average_model N step g x j.
  Let G (j k : nat) : E := (g k (y j k) - g k xs)%vec.
  Let a (j k : nat) : E := (G j k - vmean N (G j))%vec.
  Let e (j k : nat) : E := (y j k - Y j)%vec.
  Let size (u : nat -> E) : R := mean N (fun k => ||u k||^2).
  Let zeta2 : R := mean N (fun k => ||g k xs||^2).
  Let gap (j : nat) : R := objective N f (Y j) - objective N f xs.

  Lemma flat : alike (vmean N (fun k => g k xs)) zero.
  Proof. apply (flat_at_xs N 0 L f g xs ltac:(lra) of_losses). Qed.
  Lemma next_average j : alike (Y (S j)) (Y j - step * vmean N (G j))%vec.
  Proof.
    intros z. unfold Y, average_model. cbn [descent]. rewrite inner_vmean,
      (mean_ext N _ (fun k => inner (y j k) z - step * (inner (G j k) z + inner (g k xs) z)))
      by (intros; unfold G, y; expand; lra).
    rewrite mean_minus, mean_times, mean_plus, <- !inner_vmean, flat, inner_zero. expand.
    fold (y j). lra.
  Qed.
  Lemma e_is j k : alike (e j k) (- step * vsum j (fun i => a i k + g k xs))%vec.
  Proof.
    induction j; intros z.
    - unfold e, Y, average_model, y; simpl. rewrite inner_sub, inner_vmean, (mean_const N some).
    expand. lra.
    - pose proof (IHj z) as I. unfold e in *. rewrite inner_sub, (next_average j z).
    unfold y at 1; cbn [descent vsum].
      fold (y j k). unfold a at 2, G. expand. lra.
  Qed.
  Lemma one_step j : ||Y (S j) - xs||^2 <= ||Y j - xs||^2 - 2 * step * gap j
    + step / L * (L ^ 2 * size (e j) - size (a j)).
  Proof.
    pose proof (losses_at N 0 L f g xs ltac:(lra) of_losses (y j) (Y j)) as Q.
    pose proof (mean_split N some (G j) (G j)) as A.
    change (mean N (fun k => ||g k (y j k) - g k xs||^2)) with (mean N (fun k => <<G j k,
      G j k>>)) in Q.
    rewrite A in Q. change (vmean N (fun k => g k (y j k) - g k xs)%vec) with (vmean N (G j)) in Q.
    change (mean N (fun k => << G j k - vmean N (G j), G j k - vmean N (G j) >>))
      with (size (a j)) in Q.
    change (mean N (fun k => ||y j k - Y j||^2)) with (size (e j)) in Q. fold (gap j) in Q.
    set (M := vmean N (G j)) in *.
    rewrite (same_square _ ((Y j - xs) - step * M)%vec)
      by (intros z; rewrite inner_sub, (next_average j z); fold M; expand; lra).
    assert (X : ||(Y j - xs) - step * M||^2 = ||Y j - xs||^2 - 2 * step * <<M, Y j - xs>>
      + step ^ 2 * ||M||^2)
      by (expand; rewrite ?(inner_sym (Y j) M), ?(inner_sym xs M), ?(inner_sym xs (Y j)); lra).
    rewrite X. pose proof (inner_pos M) as P.
    apply (Rmult_le_compat_l (2 * step)) in Q; [|lra].
    assert (Sh : 0 <= step / L * (1 - step * L) * ||M||^2).
    { apply Rmult_le_pos; [|exact P]. apply Rmult_le_pos; [|lra].
      apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra]. }
    assert (E1 : step / L * (1 - step * L) * ||M||^2 = step / L * ||M||^2 - step ^ 2 * ||M||^2)
      by (field; lra).
    assert (E2 : 2 * step * (gap j + / (2 * L) * (||M||^2 + size (a j)) - L / 2 * size (e j))
      = 2 * step * gap j + step / L * ||M||^2 + step / L * size (a j) - step * L * size (e j))
        by (field; lra).
    assert (E3 : step / L * (L ^ 2 * size (e j) - size (a j)) = step * L * size (e j) - step / L *
      size (a j)) by (field; lra).
    lra.
  Qed.
  Let s (j : nat) : R := sum j (fun i => size (a i)).
  (** With 0 < t < 2, that is 2/t and 2/(2 - t) for Young's weights. *)
  Lemma drift_of t j : 0 < t < 2 -> size (e j) <= step ^ 2 * (2 / t * (INR j * s j)
    + 2 / (2 - t) * (INR j ^ 2 * zeta2)).
  Proof.
    intros Ht. unfold s, size, zeta2. rewrite <- (mean_sum (n := j) (fun i k => ||a i k||^2)).
    rewrite <- (mean_times N (INR j)), <- (mean_times N (2 / t)), <- (mean_times N (INR j ^ 2)),
      <- (mean_times N (2 / (2 - t))),
      <- mean_plus, <- (mean_times N (step ^ 2)).
    apply (mean_le N some); intros k _. rewrite (same_square _ _ (e_is j k)), inner_scale,
      inner_scale_r.
    pose proof (square_of_sum j (fun i => a i k + g k xs)%vec) as Q.
    assert (W : sum j (fun i => ||a i k + g k xs||^2) <= 2 / t * sum j (fun i => ||a i k||^2)
      + 2 / (2 - t) * (INR j * ||g k xs||^2)).
    { rewrite <- sum_const, <- !sum_times, <- sum_plus. apply sum_le; intros i _.
      pose proof (inner_pos ((2 - t) * a i k - t * g k xs)%vec) as P. expand.
      rewrite (inner_sym (g k xs) (a i k)) in *.
      apply Rmult_le_reg_l with (t * (2 - t)); [nra|].
      replace (t * (2 - t) * (2 / t * inner (a i k) (a i k)
        + 2 / (2 - t) * inner (g k xs) (g k xs)))
        with (2 * (2 - t) * inner (a i k) (a i k) + 2 * t * inner (g k xs) (g k xs)) by (field;
          lra). nra. }
    apply (Rmult_le_compat_l (INR j)) in W; [|apply pos_INR].
    assert (S2 : 0 <= step ^ 2) by nra. pose proof (Rle_trans _ _ _ Q W) as QW.
    apply (Rmult_le_compat_l _ _ _ S2) in QW. lra.
  Qed.
  Lemma all_steps j : ||Y j - xs||^2 <= ||x - xs||^2 - 2 * step * sum j gap
    + step / L * (L ^ 2 * sum j (fun i => size (e i)) - s j).
  Proof.
    induction j.
    - unfold s; simpl. rewrite (same_square _ (x - xs)%vec); [lra|].
      intros z. unfold Y, average_model; simpl.
      rewrite inner_sub, inner_vmean, (mean_const N some). expand; lra.
    - pose proof (one_step j) as O. unfold s in *; cbn [sum]. lra.
  Qed.
  Lemma s_grows i j : (i <= j)%nat -> s i <= s j.
  Proof.
    induction 1; [lra|]. unfold s in *; cbn [sum].
    assert (0 <= size (a m)) by (apply mean_pos_; intros; apply inner_pos). lra.
  Qed.
  Lemma round_of K : (1 <= K)%nat -> step ^ 2 * L ^ 2 * (INR K * (INR K - 1)) < 2 ->
    ||Y K - xs||^2 <= ||x - xs||^2 - 2 * step * sum K gap + noise L step K * zeta2.
  Proof.
    intros HK Ht. eapply Rle_trans; [apply all_steps|].
    assert (K0 : 1 <= INR K) by (apply (le_INR 1); exact HK). assert (Z : 0 <= zeta2)
      by (apply mean_pos_; intros; apply inner_pos).
    set (t := step ^ 2 * L ^ 2 * (INR K * (INR K - 1))) in *.
    enough (B : step / L * (L ^ 2 * sum K (fun i => size (e i)) - s K)
      <= noise L step K * zeta2) by lra.
    assert (sp : 0 < step / L) by (apply Rmult_lt_0_compat; [lra | apply Rinv_0_lt_compat; lra]).
    assert (s0 : 0 <= s K) by (apply sum_pos; intros; apply mean_pos_; intros; apply inner_pos).
    destruct (Nat.eq_dec K 1) as [one | more].
    - assert (E0 : size (e 0%nat) = 0).
      { unfold size. rewrite (mean_ext N _ (fun _ => 0)), (mean_const N some); [reflexivity|].
        intros k _. rewrite (same_square _ _ (e_is 0 k)). simpl. rewrite inner_scale, inner_zero.
        lra. }
      replace (noise L step K) with 0 by (unfold noise; rewrite one; simpl; field; lra).
      rewrite one in *. cbn [sum]. rewrite E0. nra.
    - assert (K2 : 2 <= INR K) by (apply (le_INR 2); lia).
      assert (t0 : 0 < t) by (unfold t; apply Rmult_lt_0_compat; [apply Rmult_lt_0_compat;
        apply pow_lt; lra | nra]).
      assert (D : sum K (fun i => size (e i))
        <= step ^ 2 * (2 / t * (INR K * (INR K - 1) / 2 * s K)
        + 2 / (2 - t) * (INR K * (INR K - 1) * (2 * INR K - 1) / 6 * zeta2))).
      { eapply Rle_trans; [apply sum_le; intros i Hi; apply (drift_of t i); lra|].
        rewrite sum_times. apply Rmult_le_compat_l; [nra|]. rewrite sum_plus, !sum_times.
        assert (A1 : forall n, sum n INR = INR n * (INR n - 1) / 2)
          by (induction n; [simpl; lra | rewrite S_INR; cbn [sum]; rewrite IHn; lra]).
        assert (A2 : forall n, sum n (fun i => INR i ^ 2) = INR n * (INR n - 1) * (2 * INR n - 1)
          / 6)
          by (induction n; [simpl; lra | rewrite S_INR; cbn [sum]; rewrite IHn; lra]).
        apply Rplus_le_compat.
        - apply Rmult_le_compat_l; [apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat;
          lra]|].
          rewrite <- A1, Rmult_comm, <- sum_times. apply sum_le; intros i Hi.
          rewrite (Rmult_comm (s K)).
          apply Rmult_le_compat_l; [apply pos_INR | apply s_grows; lia].
        - right. rewrite <- A2. f_equal. rewrite Rmult_comm, <- sum_times. apply sum_ext; intros;
          lra. }
      apply (Rmult_le_compat_l (step / L * L ^ 2)) in D; [|apply Rmult_le_pos;
        [lra | apply pow_le; lra]].
      assert (E1 : step / L * L ^ 2 * (step ^ 2 * (2 / t * (INR K * (INR K - 1) / 2 * s K)
        + 2 / (2 - t) * (INR K * (INR K - 1) * (2 * INR K - 1) / 6 * zeta2)))
        = step / L * s K + noise L step K * zeta2).
      { assert (Kt : INR K * (INR K - 1) = t / (step ^ 2 * L ^ 2)) by (unfold t; field; lra).
        assert (P1 : step / L * L ^ 2 * (step ^ 2 * (2 / t * (INR K * (INR K - 1) / 2 * s K)))
          = step / L * s K) by (rewrite Kt; field; lra).
        unfold noise. fold t. rewrite <- P1. clearbody t. field. lra. }
      rewrite E1 in D. lra.
  Qed.
End Round.

(** * Theorems *)
Theorem fedavg_round_for_every_K (E : space) N L step K f g (xs x : E) :
  0 < L -> 0 < step -> step * L <= 1 -> (1 <= K)%nat ->
    step ^ 2 * L ^ 2 * (INR K * (INR K - 1)) < 2 ->
  losses N 0 L f g xs ->
  ||average_model N step g x K - xs||^2 <= ||x - xs||^2
    - 2 * step * sum K (fun j => objective N f (average_model N step g x j) - objective N f xs)
    + noise L step K * mean N (fun k => ||g k xs||^2).
Proof. intros HL Hs H1 HK Ht Lo. apply round_of; assumption. Qed.

Theorem fedavg_for_every_K (E : space) N L step K f g (xs x0 : E) :
  0 < L -> 0 < step -> step * L <= 1 -> (1 <= K)%nat ->
    step ^ 2 * L ^ 2 * (INR K * (INR K - 1)) < 2 ->
  losses N 0 L f g xs -> forall T, let x := fedavg N step K g x0 in
  ||x T - xs||^2 + 2 * step * sum T (fun t => sum K (fun j =>
    objective N f (average_model N step g (x t) j) - objective N f xs))
  <= ||x0 - xs||^2 + INR T * (noise L step K * mean N (fun k => ||g k xs||^2)).
Proof.
  intros HL Hs H1 HK Ht Lo T x. induction T; [simpl; lra|].
  pose proof (fedavg_round_for_every_K E N L step K f g xs (x T) HL Hs H1 HK Ht Lo) as F.
  change (average_model N step g (x T) K) with (x (S T)) in F. rewrite S_INR. cbn [sum]. lra.
Qed.
Print Assumptions fedavg_for_every_K.
