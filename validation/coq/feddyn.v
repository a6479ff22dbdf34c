(** FedDyn with exact local solves lowers a potential in every round, for every alpha = lam L > 0,
    every number of clients N and of participants P, and all convex L-smooth losses. *)
From Coq Require Import Reals List Lra Lia.
From Fedtheory Require Import facts methods_defined cohorts.
From Theorems Require Import squares round.
Open Scope R_scope.

(** * Definitions *)

(** What is asked of the clients, the losses and the optimum. *)
Record losses {E : space} (N : nat) (mu L : R)
    (f : nat -> E -> R) (g : nat -> E -> E) (xs : E) : Prop := {
  some_clients : (1 <= N)%nat;
  smooth_losses : forall k, (k < N)%nat -> smooth_convex mu L (f k) (g k);
  optimum : forall z, objective N f xs <= objective N f z }.

(** [y k] solves client [k]'s local problem: grad f_k(y) - h_k + alpha (y - x) = 0. *)
Definition all_solved {E : space} N (alpha : R) (g : nat -> E -> E) (x : E) (h y : nat -> E) :=
  forall k, (k < N)%nat -> solved alpha g k (h k) x (y k).

(** One round lowers the potential with the weight [kappa] by [kappa_0] times the gap at gamma, in
    the mean over the cohorts, from every model and all stored gradients. *)
Definition lowers (N P : nat) (L lam kappa kappa_0 : R) : Prop :=
  forall (E : space) (C : cohorts N P) (f : nat -> E -> R) (g : nat -> E -> E)
    (xs x : E) (h y : nat -> E),
  losses N 0 L f g xs -> all_solved N (lam * L) g x h y ->
  let V := potential N (lam * L) g kappa xs in
  expected C (fun who => V (model N P (lam * L) g who h y) (stored g who h y))
  <= V x h - kappa_0 * (objective N f (gamma N (lam * L) x h) - objective N f xs).

(** A state is the model and the stored gradients; [solve k x h] is the exact local solution of
    client [k]. *)
Definition state (E : space) : Type := E * (nat -> E).
Definition next {E : space} N P (alpha : R) (g : nat -> E -> E) (solve : nat -> E -> E -> E)
    (who : cohort) (s : state E) : state E :=
  let (x, h) := s in let y k := solve k x (h k) in
  (model N P alpha g who h y, stored g who h y).

(** One participant's kappa_0 for L = 1, and lam^2 P/N times kappa. *)
Definition near lam := if Rle_dec (lam ^ 2) (4 * lam + 4) then true else false.
Definition kappa_0 lam := if near lam then 4 * lam / (2 + lam) ^ 2 else 2 / lam.
Definition kappa lam := if near lam then (2 + 3 * lam) / (2 + lam) else lam / 2.

(** The best kappa_0; docs/worst_cases.md has the instances that allow no larger one. Here s is 1
    less what is left of the spread: 0 for one participant, 1 for all. *)
Definition closed lam s :=
  if Rle_dec (s * (2 + 2 * lam + lam ^ 2)) (lam * (1 + lam)) then 4 * (lam + 2 * s) / (2 + lam) ^ 2
  else (sqrt (s ^ 2 * lam ^ 4 + 8 * lam * s * (1 + lam) ^ 2) - s * lam ^ 2) / (1 + lam) ^ 2.
Definition best_kappa_0 lam s := Rmin (2 / lam) (closed lam s).

(** * Proofs *)
Definition fits lam s q K : Prop :=
  let A := K - (1 - s) - q in let D := 1 + s + 2 * lam - K - q * (1 + lam) ^ 2 in
  let B := q * (1 + lam) - s in 0 <= A /\ s <= D /\ B * B <= A * D /\ 0 <= K.

Lemma spread_is N P : (1 <= P)%nat -> (P <= N)%nat -> 0 <= 1 - sampling_spread N P <= 1.
Proof.
  intros HP HN. unfold sampling_spread. apply le_INR in HP, HN. simpl in HP.
  destruct (Req_dec (INR N) 1) as [one | more].
  - replace (INR N - INR P) with 0 by lra. unfold Rdiv; rewrite Rmult_0_l; lra.
  - assert (0 < INR P * (INR N - 1)) by nra. split.
    + apply Rmult_le_reg_l with (INR P * (INR N - 1)); [lra|]. field_simplify; [nra | split; lra].
    + assert (0 <= (INR N - INR P) / (INR P * (INR N - 1)))
        by (apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra]). lra.
Qed.

Lemma lowers_by N P L lam q K : (1 <= P)%nat -> (P <= N)%nat -> 0 < L -> 0 < lam -> 0 <= q
  <= / lam ->
  fits lam (1 - sampling_spread N P) q K ->
  lowers N P L lam (INR N / INR P * K / lam ^ 2 / L ^ 2) (2 * q / L).
Proof.
  intros HP HN HL Hl Hq (HA & HC & HB & HK) E C f g xs x h y [some smooth opt] S V.
  set (z := fun _ : nat => @zero E).
  assert (S0 : forall k v, (k < N)%nat -> << g k (y k) + z k - h k + (lam * L)%R * (y k - x),
    v >> = 0).
  { intros k v Hk. rewrite <- (inner_zero v), <- (S k Hk). unfold z; expand; lra. }
  assert (F : falls N P C L lam f g xs x h y z q K).
  { apply falls_without_penalty; try assumption; [intros; apply inner_zero | apply spread_is;
    assumption]. }
  unfold falls in F. fold V in F. rewrite (inner_sym _ (vmean N z)), inner_vmean in F.
  rewrite (mean_ext N _ (fun _ => 0)), (mean_const N some) in F by (intros; apply inner_zero). lra.
Qed.

Lemma near_fits lam s : 0 < lam -> 0 <= s -> lam ^ 2 <= 4 * lam + 4 ->
  fits lam s (2 * lam / (2 + lam) ^ 2) ((2 + 3 * lam) / (2 + lam)) /\ 2 * lam / (2 + lam) ^ 2
    <= / lam.
Proof.
  intros Hl Hs Hn. set (q := 2 * lam / (2 + lam) ^ 2). set (K := (2 + 3 * lam) / (2 + lam)).
  assert (Q : 0 < q) by (apply Rmult_lt_0_compat; [lra | apply Rinv_0_lt_compat; nra]).
  assert (HA : K - (1 - s) - q = s + q * (1 + lam)) by (unfold K, q; field; lra).
  assert (HD : 1 + s + 2 * lam - K - q * (1 + lam) ^ 2 = s + q * (1 + lam)) by (unfold K, q;
    field; lra).
  split.
  - unfold fits. rewrite HA, HD. assert (0 < q * (1 + lam)) by nra. repeat split; try nra.
    all: try (apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra]).
  - unfold q. apply Rmult_le_reg_l with (lam * (2 + lam) ^ 2); [nra|]. field_simplify;
    [nra | lra | lra].
Qed.
Lemma far_fits lam s : 0 < lam -> 0 <= s -> 4 * lam + 4 <= lam ^ 2 -> fits lam s (/ lam) (lam / 2).
Proof.
  intros Hl Hs Hf. assert (H : / lam * (1 + lam) = 1 + / lam) by (field; lra).
  assert (M : 1 + / lam <= lam / 2 - (1 + / lam)).
  { apply Rmult_le_reg_l with lam; [lra|]. field_simplify; [nra | lra | lra]. }
  assert (0 < / lam) by (apply Rinv_0_lt_compat; lra).
  assert (HD : 1 + s + 2 * lam - lam / 2 - / lam * (1 + lam) ^ 2 = s + (lam / 2 - (1 + / lam)))
    by (field; lra).
  unfold fits. rewrite HD, H. repeat split; nra.
Qed.

(** Smaller q: what fits is convex. *)
Lemma fits_less lam s q K t : 0 < lam -> 0 <= s -> 0 <= t <= 1 -> fits lam s q K -> exists K',
  fits lam s (t * q) K'.
Proof.
  intros Hl Hs Ht (HA & HD & HB & HK). exists ((1 - t) * (1 + lam) + t * K). unfold fits.
  set (A := K - (1 - s) - q) in *. set (D := 1 + s + 2 * lam - K - q * (1 + lam) ^ 2) in *.
  set (B := q * (1 + lam) - s) in *.
  replace ((1 - t) * (1 + lam) + t * K - (1 - s) - t * q) with (t * A + (1 - t) * (s + lam))
    by (unfold A; lra).
  replace (1 + s + 2 * lam - ((1 - t) * (1 + lam) + t * K) - t * q * (1 + lam) ^ 2) with (t * D
    + (1 - t) * (s + lam)) by (unfold D; lra).
  replace (t * q * (1 + lam) - s) with (t * B - (1 - t) * s) by (unfold B; lra).
  pose proof (pow2_ge_0 (A - D)) as P.
  assert (SQ : (2 * B) * (2 * B) <= (A + D) * (A + D)) by lra.
  assert (SB : - (A + D) <= 2 * B) by (apply Rnot_lt_le; intros N; assert (0 <= A + D) by lra;
    nra).
  clearbody A B D. repeat split.
  - nra.
  - nra.
  - assert (0 <= t * (1 - t)) by nra. assert (0 <= (A + D) * (s + lam) + 2 * B * s) by nra.
    assert (0 <= t * t * (A * D - B * B)) by nra.
    assert (0 <= t * (1 - t) * ((A + D) * (s + lam) + 2 * B * s)) by nra.
    assert (0 <= (1 - t) * (1 - t) * (lam * (2 * s + lam))) by (apply Rmult_le_pos; nra). nra.
  - nra.
Qed.
Lemma closed_fits lam s : 0 < lam -> 0 <= s <= 1 -> 0 < closed lam s /\ exists K,
  fits lam s (closed lam s / 2) K.
Proof.
  intros Hl Hs. unfold closed. destruct (Rle_dec _ _) as [first | second].
  - set (q := 4 * (lam + 2 * s) / (2 + lam) ^ 2 / 2).
    assert (Q : q * (2 + lam) ^ 2 = 2 * (lam + 2 * s)) by (unfold q; field; lra).
    assert (B : s <= q * (1 + lam) - s).
    { apply Rmult_le_reg_l with ((2 + lam) ^ 2); [nra|].
      replace ((2 + lam) ^ 2 * (q * (1 + lam) - s)) with (q * (2 + lam) ^ 2 * (1 + lam) - s * (2
        + lam) ^ 2) by lra. rewrite Q. nra. }
    split; [apply Rmult_lt_0_compat; [lra | apply Rinv_0_lt_compat; nra]|].
    exists (q * (2 + lam) + 1 - 2 * s). unfold fits.
    replace (q * (2 + lam) + 1 - 2 * s - (1 - s) - q) with (q * (1 + lam) - s) by lra.
    replace (1 + s + 2 * lam - (q * (2 + lam) + 1 - 2 * s) - q * (1 + lam) ^ 2) with (q * (1
      + lam) - s) by nra.
    assert (0 < q) by nra. repeat split; nra.
  - apply Rnot_le_lt in second. assert (s0 : 0 < s) by nra.
    set (r := s ^ 2 * lam ^ 4 + 8 * lam * s * (1 + lam) ^ 2).
    assert (M : 0 < 8 * lam * s * (1 + lam) ^ 2) by (repeat apply Rmult_lt_0_compat; nra).
    assert (r0 : s * lam ^ 2 * (s * lam ^ 2) < r) by (unfold r; lra).
    assert (s2 : 0 < s * lam ^ 2) by (apply Rmult_lt_0_compat; nra).
    assert (R2 : sqrt r * sqrt r = r) by (apply sqrt_sqrt; nra).
    assert (R0 : 0 <= sqrt r) by apply sqrt_pos.
    assert (R1 : s * lam ^ 2 < sqrt r) by nra.
    set (q := (sqrt r - s * lam ^ 2) / (1 + lam) ^ 2 / 2).
    assert (Q1 : 2 * q * (1 + lam) ^ 2 + s * lam ^ 2 = sqrt r) by (unfold q; field; lra).
    assert (Q : q * q * (1 + lam) ^ 2 + q * s * lam ^ 2 = 2 * lam * s).
    { assert ((2 * q * (1 + lam) ^ 2 + s * lam ^ 2) * (2 * q * (1 + lam) ^ 2
      + s * lam ^ 2) = r) by (rewrite Q1; exact R2).
      apply Rmult_eq_reg_l with (4 * (1 + lam) ^ 2); [|nra]. unfold r in *. lra. }
    split; [apply Rmult_lt_0_compat; [lra | apply Rinv_0_lt_compat; nra]|].
    assert (Q0 : 0 < q) by (unfold q; repeat apply Rmult_lt_0_compat; try lra;
      apply Rinv_0_lt_compat; nra).
    exists (1 + 2 * lam - q * (1 + lam) ^ 2). unfold fits.
    replace (1 + s + 2 * lam - (1 + 2 * lam - q * (1 + lam) ^ 2) - q * (1 + lam) ^ 2)
      with s by lra.
    set (A := 1 + 2 * lam - q * (1 + lam) ^ 2 - (1 - s) - q). set (B := q * (1 + lam) - s).
    assert (AB : A * s = B * B) by (unfold A, B; lra).
    assert (A0 : 0 <= A) by nra. repeat split; try lra. unfold A in A0. lra.
Qed.

(** * Theorems *)

(** The constants of one participant are good for all N and P. *)
Theorem feddyn_round N P L lam : (1 <= P)%nat -> (P <= N)%nat -> 0 < L -> 0 < lam ->
  lowers N P L lam (INR N / INR P * kappa lam / lam ^ 2 / L ^ 2) (kappa_0 lam / L).
Proof.
  intros HP HN HL Hl. pose proof (spread_is N P HP HN) as Hs. assert (0 < / lam)
    by (apply Rinv_0_lt_compat; lra).
  unfold kappa, kappa_0, near. destruct (Rle_dec _ _) as [n | f].
  - destruct (near_fits lam _ Hl (proj1 Hs) n) as [F Q].
    replace (4 * lam / (2 + lam) ^ 2) with (2 * (2 * lam / (2 + lam) ^ 2)) by (field; lra).
    apply lowers_by; try assumption. split; [|exact Q]. apply Rmult_le_pos; [lra | left;
      apply Rinv_0_lt_compat; nra].
  - apply Rnot_le_lt in f. change (2 / lam) with (2 * / lam). apply lowers_by; try assumption;
    [lra | apply far_fits; lra].
Qed.

(** The best kappa_0, with a kappa that depends on N, P, L and lam alone. *)
Theorem feddyn_round_best N P L lam : (1 <= P)%nat -> (P <= N)%nat -> 0 < L -> 0 < lam ->
  exists kappa, 0 <= kappa /\
    lowers N P L lam kappa (best_kappa_0 lam (1 - sampling_spread N P) / L).
Proof.
  intros HP HN HL Hl. set (s := 1 - sampling_spread N P).
  pose proof (spread_is N P HP HN : 0 <= s <= 1) as Hs.
  assert (Hi : 0 < / lam) by (apply Rinv_0_lt_compat; lra).
  destruct (closed_fits lam s Hl Hs) as [C0 [K F]]. set (c := closed lam s) in *.
  assert (B : 0 < best_kappa_0 lam s) by (unfold best_kappa_0; apply Rmin_pos;
    [apply Rmult_lt_0_compat; lra | exact C0]).
  assert (B2 : best_kappa_0 lam s <= 2 / lam) by apply Rmin_l.
  assert (B1 : best_kappa_0 lam s <= c) by apply Rmin_r.
  set (b := best_kappa_0 lam s) in *.
  destruct (fits_less lam s (c / 2) K (b / c) Hl (proj1 Hs)) as [K' F']; [|exact F|].
  - split; [left; apply Rmult_lt_0_compat; [lra | apply Rinv_0_lt_compat, C0]|].
    apply Rmult_le_reg_l with c; [lra|]. field_simplify; lra.
  - replace (b / c * (c / 2)) with (b / 2) in F' by (field; lra).
    exists (INR N / INR P * K' / lam ^ 2 / L ^ 2). split.
    + assert (0 < INR N /\ 0 < INR P) as [] by (split; apply lt_0_INR; lia).
    destruct F' as (_ & _ & _ & K0).
      repeat apply Rmult_le_pos; try lra; left; apply Rinv_0_lt_compat; nra.
    + replace (b / L) with (2 * (b / 2) / L) by (field; lra). apply lowers_by; try assumption.
      unfold Rdiv in B2. lra.
Qed.

(** Whatever lowers the potential bounds the gap over T rounds: the sum of the expected gaps at
    gamma is at most V_0/kappa_0. *)
Theorem feddyn_rounds N P L lam kappa kappa_0 : lowers N P L lam kappa kappa_0 -> 0 <= kappa ->
  forall (E : space) (C : cohorts N P) (f : nat -> E -> R) (g : nat -> E -> E)
    (xs : E) (solve : nat -> E -> E -> E),
  losses N 0 L f g xs -> (forall x h, all_solved N (lam * L) g x h (fun k => solve k x (h k))) ->
  let gap (s : state E) :=
    objective N f (gamma N (lam * L) (fst s) (snd s)) - objective N f xs in
  forall (T : nat) (x : E) (h : nat -> E),
  sum T (fun t => later C (next N P (lam * L) g solve) t (fun s => kappa_0 * gap s) (x, h))
    <= potential N (lam * L) g kappa xs x h.
Proof.
  intros low HK E C f g xs solve Lo So gap T x h.
  apply (falls_every_round C (next N P (lam * L) g solve)
    (fun s => potential N (lam * L) g kappa xs (fst s) (snd s)) (fun s => kappa_0 * gap s)).
  - intros [z k]. unfold potential; cbn [fst snd].
    pose proof (inner_pos (gamma N (lam * L) z k - xs)%vec).
    assert (0 <= mean N (fun i => ||k i - g i xs||^2)) by (apply mean_pos_; intros;
      apply inner_pos).
    nra.
  - intros [z k]. apply (low E C f g xs z k _ Lo (So z k)).
Qed.
(** FedDyn of everybody as it is defined, its stored gradients 0 at first: with lam = alpha/L, the
    gaps at gamma_0, ..., gamma_{T-1} have a sum that does not depend on T. *)
Theorem feddyn_gaps N L lam kappa kappa_0 : lowers N N L lam kappa kappa_0 -> 0 <= kappa ->
  forall (E : space) (f : nat -> E -> R) (g : nat -> E -> E) (xs x0 : E) x y h,
  losses N 0 L f g xs -> feddyn N solved (lam * L) g x0 x y h -> forall T,
  kappa_0 * sum T (fun t => objective N f (gamma N (lam * L) (x t) (h t)) - objective N f xs)
  <= ||x0 - xs||^2 + kappa * mean N (fun k => ||g k xs||^2).
Proof.
  intros low HK E f g xs x0 x y h Lo [start none work kept mod_] T.
  pose proof (some_clients _ _ _ _ _ _ Lo) as some. set (V := potential N (lam * L) g kappa xs).
  assert (St : forall t k, (k < N)%nat -> h (S t) k = g k (y (S t) k)).
  { intros t k Hk. rewrite (kept t k Hk). apply same; intros z.
    pose proof (f_equal (fun v => inner v z) (work t k Hk)) as W. cbv beta in W.
    rewrite inner_zero in W. expand. lra. }
  assert (F : forall t, V (x (S t)) (h (S t)) <= V (x t) (h t) - kappa_0 *
    (objective N f (gamma N (lam * L) (x t) (h t)) - objective N f xs)).
  { intros t. pose proof (low E (everybody N some) f g xs (x t) (h t) (y (S t)) Lo (work t)) as F.
    cbv zeta in F. rewrite expected_everybody in F. fold V in F. eapply Rle_trans; [|exact F].
    right.
    assert (M : vmean N (h (S t)) = vmean N (stored g (fun _ => true) (h t) (y (S t)))).
    { apply same; intros z. rewrite !inner_vmean. apply mean_ext; intros k Hk.
      unfold stored. rewrite (St t k Hk). reflexivity. }
    unfold V, potential, gamma, model. rewrite everybodys_mean, mod_, M. f_equal. f_equal.
    apply mean_ext; intros k Hk. unfold stored. rewrite (St t k Hk). reflexivity. }
  assert (V0 : forall t, 0 <= V (x t) (h t)).
  { intros t. unfold V, potential. pose proof (inner_pos (gamma N (lam * L) (x t) (h t) - xs)%vec).
    assert (0 <= mean N (fun k => ||h t k - g k xs||^2)) by (apply mean_pos_; intros;
      apply inner_pos).
    nra. }
  assert (B : V (x 0%nat) (h 0%nat) = ||x0 - xs||^2 + kappa * mean N (fun k => ||g k xs||^2)).
  { unfold V, potential, gamma. rewrite start. f_equal.
    - apply same_square. intros z. expand. rewrite inner_vmean, (mean_ext N _ (fun _ => 0)).
      + rewrite (mean_const N some). lra.
      + intros k Hk. rewrite (none k Hk). apply inner_zero.
    - f_equal. apply mean_ext; intros k Hk. rewrite (none k Hk).
      expand. lra. }
  rewrite <- B. clear B.
  assert (S_ : kappa_0 * sum T (fun t => objective N f (gamma N (lam * L) (x t) (h t)) - objective
    N f xs)
    <= V (x 0%nat) (h 0%nat) - V (x T) (h T)).
  { induction T; [simpl; lra|]. specialize (F T). cbn [sum]. lra. }
  specialize (V0 T). lra.
Qed.
Print Assumptions feddyn_round.
Print Assumptions feddyn_round_best.
Print Assumptions feddyn_rounds.
Print Assumptions feddyn_gaps.
