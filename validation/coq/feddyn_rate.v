(** FedDyn of everybody converges linearly on strongly convex losses, for every alpha > 0 and any
    number of clients: with its best quadratic potential and the best rate, max(alpha/(alpha +
    mu), L/(L + alpha))^2. *)
From Coq Require Import Reals Lra Lia.
From Fedtheory Require Import facts.
From Theorems Require Import cohorts round feddyn.
Open Scope R_scope.

(** * Definitions *)

(** Models x_t, local models y_t and stored gradients h_t of FedDyn, from any start: y_t solves
    the local problems at x_t and h_t, its gradients are stored, x_{t+1} = mean y_t - mean
    h_{t+1}/alpha. *)
Record feddyn_run {E : space} N (alpha : R) (g : nat -> E -> E)
    (x : nat -> E) (y h : nat -> nat -> E) : Prop := {
  run_solved : forall t, solved N alpha g (x t) (h t) (y t);
  run_stored : forall t k, h (S t) k = g k (y t k);
  run_model : forall t, x (S t) = (vmean N (y t) - / alpha * vmean N (h (S t)))%vec }.
Arguments run_solved {_ _ _ _ _ _ _}. Arguments run_stored {_ _ _ _ _ _ _}.
Arguments run_model {_ _ _ _ _ _ _}.

(** The potential: with s_k = x + h_k/alpha, the mean of squared distances from what s_k is at the
    optimum. *)
Definition far {E : space} N alpha (g : nat -> E -> E) (xs x : E) (h : nat -> E) : R :=
  mean N (fun k => ||(x + / alpha * h k) - (xs + / alpha * g k xs)||^2).
Definition rate alpha mu L := Rmax (alpha / (alpha + mu)) (L / (L + alpha)).

(** * Proof *)

(** The reflected local problem is a contraction. *)
Lemma reflected {E : space} alpha mu L (f : E -> R) (g : E -> E) (x y : E) :
  0 < alpha -> 0 <= mu < L -> smooth_convex mu L f g ->
  let a := (y - x)%vec in let b := (/ alpha * (g y - g x))%vec in
  let d := 2 * rate alpha mu L - 1 in
  0 < d <= 1 /\ ||a - b||^2 <= d ^ 2 * ||a + b||^2.
Proof.
  intros Ha Hm F a b d. set (m := mu / alpha). set (M := L / alpha).
  assert (Hi : 0 < / alpha) by (apply Rinv_0_lt_compat, Ha).
  assert (m0 : 0 <= m) by (apply Rmult_le_pos; lra). assert (mM : m < M)
    by (apply Rmult_lt_compat_r; lra).
  assert (I : 0 <= (M + m) * <<a, b>> - m * M * ||a||^2 - ||b||^2).
  { pose proof (interpolation mu L (/ (2 * (L - mu))) f g ltac:(lra) ltac:(field; lra) F) as J.
    pose proof (J x y) as J1. pose proof (J y x) as J2. pose (D := (g y - g x)%vec).
    assert (K : 0 <= (L + mu) * <<D, y - x>> - mu * L * ||y - x||^2 - ||D||^2).
    { apply Rmult_le_reg_l with (/ (L - mu)); [apply Rinv_0_lt_compat; lra|]. rewrite Rmult_0_r.
      replace (/ (L - mu) * ((L + mu) * <<D, y - x>> - mu * L * ||y - x||^2 - ||D||^2))
        with (<<D, y - x>> - / (2 * (L - mu)) * (2 * (||D||^2
          + mu * L * ||y - x||^2 - 2 * mu * <<D, y - x>>))) by (field; lra).
      subst D. generalize dependent (/ (2 * (L - mu))); intros i; intros. expand.
      rewrite ?(inner_sym y x), ?(inner_sym x (g x)), ?(inner_sym x (g y)), ?(inner_sym y (g x)),
        ?(inner_sym y (g y)), ?(inner_sym (g y) (g x)) in *. nra. }
    subst a b m M. fold D. rewrite inner_scale_r, inner_scale, inner_scale_r, (inner_sym _ D).
    replace (_ - _) with (/ alpha * / alpha * ((L + mu) * <<D,
      y - x>> - mu * L * ||y - x||^2 - ||D||^2)) by (field; lra).
    apply Rmult_le_pos; [nra | exact K]. }
  assert (P1 : 0 <= ||a - b||^2) by apply inner_pos.
  assert (P2 : 0 <= ||b - m * a||^2) by apply inner_pos.
  assert (P3 : 0 <= ||M * a - b||^2) by apply inner_pos.
  expand. rewrite ?(inner_sym b a) in *.
  set (A := inner a a) in *. set (X := inner a b) in *. set (B := inner b b) in *. clearbody A X B.
  assert (L0 : 0 < L) by lra. unfold d, rate. clear d.
  destruct (Rle_dec (mu * L) (alpha ^ 2)) as [c | c].
  - rewrite Rmax_left.
    2: { apply Rmult_le_reg_l with ((alpha + mu) * (L + alpha)); [nra|]. field_simplify;
      [nra | lra | lra]. }
    replace (2 * (alpha / (alpha + mu)) - 1) with ((1 - m) / (1 + m)) by (unfold m; field; lra).
    assert (m1 : m < 1) by (unfold m; apply Rmult_lt_reg_l with alpha; [lra|]; field_simplify;
      [nra | lra]).
    assert (mM1 : m * M <= 1).
    { unfold m, M. apply Rmult_le_reg_l with (alpha ^ 2); [nra|]. field_simplify; [nra | lra]. }
    assert (C : 0 <= X - m * A) by (apply Rmult_le_reg_l with (M - m); [lra|]; nra).
    split; [split; first [apply Rmult_lt_reg_l with (1 + m) | apply Rmult_le_reg_l with (1 + m)];
      try lra; field_simplify; lra|].
    apply Rmult_le_reg_l with ((1 + m) ^ 2); [nra|].
    replace ((1 + m) ^ 2 * (((1 - m) / (1 + m)) ^ 2 * _)) with ((1 - m) ^ 2 * (A + X + (X
      + B))) by (field; lra).
    assert (0 <= (1 - m * M) * (X - m * A)) by (apply Rmult_le_pos; lra).
    assert (0 <= m * ((M + m) * X - m * M * A - B)) by (apply Rmult_le_pos; lra). lra.
  - apply Rnot_le_lt in c. rewrite Rmax_right.
    2: { apply Rmult_le_reg_l with ((alpha + mu) * (L + alpha)); [nra|]. field_simplify;
      [nra | lra | lra]. }
    replace (2 * (L / (L + alpha)) - 1) with ((M - 1) / (M + 1)) by (unfold M; field; lra).
    assert (m1 : 1 < M) by (unfold M; apply Rmult_lt_reg_l with alpha; [lra|]; field_simplify;
      [nra | lra]).
    assert (mM1 : 1 <= m * M).
    { unfold m, M. apply Rmult_le_reg_l with (alpha ^ 2); [nra|]. field_simplify; [nra | lra]. }
    assert (C : 0 <= M * A - X) by (apply Rmult_le_reg_l with (M - m); [lra|]; nra).
    split; [split; first [apply Rmult_lt_reg_l with (M + 1) | apply Rmult_le_reg_l with (M + 1)];
      try lra; field_simplify; lra|].
    apply Rmult_le_reg_l with ((M + 1) ^ 2); [nra|].
    replace ((M + 1) ^ 2 * (((M - 1) / (M + 1)) ^ 2 * _)) with ((M - 1) ^ 2 * (A + X + (X
      + B))) by (field; lra).
    assert (0 <= (m * M - 1) * (M * A - X)) by (apply Rmult_le_pos; lra).
    assert (0 <= M * ((M + m) * X - m * M * A - B)) by (apply Rmult_le_pos; lra). lra.
Qed.

Section Rate.
  Context {E : space} (N : nat) (alpha mu L : R) (f : nat -> E -> R) (g : nat -> E -> E) (xs : E).
  Context (x : nat -> E) (y h : nat -> nat -> E).
  Hypothesis alpha_pos : 0 < alpha.
  Hypothesis mu_below : 0 <= mu < L.
  Hypothesis of_losses : losses N mu L f g xs.
  Hypothesis run : feddyn_run N alpha g x y h.
  Let some := some_clients _ _ _ _ _ _ of_losses.
  Let F := families N E.
  Let r := rate alpha mu L.

  (** What local problems are asked at, what their reflection is, and the reflection with means
      turned. *)
  Definition asked (t : nat) : F := fun k =>
    ((x t + / alpha * h t k) - (xs + / alpha * g k xs))%vec.
  Definition turned (t : nat) : F := fun k =>
    ((y t k - xs) - / alpha * (g k (y t k) - g k xs))%vec.
  Definition mirrored (t : nat) : F := fun k => (2 * vmean N (turned t) - turned t k)%vec.

  Lemma flat_at_xs : same (vmean N (fun k => g k xs)) zero.
  Proof.
    intros z. set (size := mean N (fun k => ||g k xs||^2)). rewrite inner_zero.
    apply (stationary N mu L 0 (1 + size) f g xs xs ltac:(lra)).
    assert (0 <= size) by (apply mean_pos_; intros; apply inner_pos).
    constructor; [exact some | exact (smooth_losses _ _ _ _ _ _ of_losses)
      | exact (optimum _ _ _ _ _ _ of_losses) | expand; lra | fold size; nra].
  Qed.
  Lemma asked_is t k : (k < N)%nat -> same (asked t k) ((y t k - xs)
    + / alpha * (g k (y t k) - g k xs))%vec.
  Proof.
    intros Hk z. pose proof (run_solved run t k z Hk) as S. unfold asked. expand.
    apply Rmult_eq_reg_l with alpha; [|lra]. field_simplify; [|lra..]. lra.
  Qed.
  Lemma turned_shorter t : ||turned t||^2 <= (2 * r - 1) ^ 2 * ||asked t||^2.
  Proof.
    change (mean N (fun k => ||turned t k||^2)
      <= (2 * r - 1) ^ 2 * mean N (fun k => ||asked t k||^2)).
    rewrite <- mean_times. apply (mean_le N some); intros k Hk.
    rewrite (same_square _ _ (asked_is t k Hk)).
    apply (reflected alpha mu L (f k)); try assumption.
    apply (smooth_losses _ _ _ _ _ _ of_losses k Hk).
  Qed.
  Lemma mirrored_as_long t : ||mirrored t||^2 = ||turned t||^2.
  Proof.
    change (mean N (fun k => ||2 * vmean N (turned t) - turned t k||^2) = mean N (fun k =>
      ||turned t k||^2)).
    rewrite (mean_ext N _ (fun k => 4 * ||vmean N (turned t)||^2 - 4 * inner (turned t k) (vmean N
      (turned t)) + ||turned t k||^2))
      by (intros; expand; rewrite (inner_sym (vmean N (turned t)) (turned t k)); lra).
    rewrite mean_plus, mean_minus, mean_const, mean_times, <- inner_vmean by exact some. lra.
  Qed.
  Lemma next_model t : same (vmean N (turned t)) (x (S t) - xs)%vec.
  Proof.
    intros z. rewrite inner_vmean, (run_model run). transitivity (mean N (fun k =>
      inner (y t k) z - inner xs z - / alpha * (inner (h (S t) k) z - inner (g k xs) z))).
    - apply mean_ext; intros; unfold turned; rewrite (run_stored run); expand; lra.
    - rewrite !mean_minus, mean_times, mean_minus, (mean_const N some), <- !inner_vmean,
      flat_at_xs, inner_zero.
      expand. lra.
  Qed.
  Lemma asked_next t k : (k < N)%nat -> same (asked (S t) k) (/ 2 * (asked t k
    + mirrored t k))%vec.
  Proof.
    intros Hk z. pose proof (asked_is t k Hk z) as A. unfold mirrored.
    pose proof (next_model t z) as M.
    unfold asked at 1. unfold turned at 2. rewrite inner_scale, inner_add, A, (run_stored run).
    expand.
    rewrite M. lra.
  Qed.
  Lemma falls_by t : ||asked (S t)||^2 <= r ^ 2 * ||asked t||^2.
  Proof.
    assert (E1 : ||asked (S t)||^2 = / 4 * ||asked t + mirrored t||^2).
    { change (mean N (fun k => ||asked (S t) k||^2) = / 4 * mean N (fun k => ||asked t k
      + mirrored t k||^2)).
      rewrite <- mean_times. apply mean_ext; intros k Hk.
      rewrite (same_square _ _ (asked_next t k Hk)), inner_scale, inner_scale_r. lra. }
    rewrite E1. clear E1. pose proof (turned_shorter t) as T. rewrite <- mirrored_as_long in T.
    assert (d0 : 0 < 2 * r - 1) by (apply (reflected alpha mu L (f 0%nat) (g 0%nat) xs xs);
      try assumption;
      apply (smooth_losses _ _ _ _ _ _ of_losses); exact some).
    pose proof (inner_pos ((2 * r - 1)%R * asked t - mirrored t)%vec) as Q. expand.
    rewrite (inner_sym (mirrored t) (asked t)) in *.
    set (a := inner (asked t) (asked t)) in *. set (b := inner (asked t) (mirrored t)) in *.
    set (c := inner (mirrored t) (mirrored t)) in *.
    assert (b <= (2 * r - 1) * a) by (apply Rmult_le_reg_l with (2 * (2 * r - 1)); [lra|]; lra).
    lra.
  Qed.
  Lemma far_is t : far N alpha g xs (x t) (h t) = ||asked t||^2. Proof. reflexivity. Qed.
  Lemma bounded t : ||asked t||^2 <= (r ^ 2) ^ t * ||asked 0%nat||^2.
  Proof.
    induction t; [simpl; lra|]. eapply Rle_trans; [apply falls_by|]. simpl (_ ^ S t).
    rewrite Rmult_assoc.
    apply Rmult_le_compat_l; [nra | exact IHt].
  Qed.
  Lemma mean_shorter (u : F) : ||vmean N u||^2 <= ||u||^2.
  Proof.
    change (||vmean N u||^2 <= mean N (fun k => ||u k||^2)).
    assert (0 <= mean N (fun k => ||u k - vmean N u||^2)) as P by (apply mean_pos_; intros;
      apply inner_pos).
    rewrite (mean_ext N _ (fun k => ||u k||^2 - 2 * inner (u k) (vmean N u)
      + ||vmean N u||^2)) in P
      by (intros; expand; rewrite (inner_sym (vmean N u) (u k)); lra).
    rewrite mean_plus, mean_minus, mean_const, mean_times, <- inner_vmean in P by exact some. lra.
  Qed.
  Lemma factor : 0 < 2 * r - 1 <= 1.
  Proof.
    apply (reflected alpha mu L (f 0%nat) (g 0%nat) xs xs); try assumption.
    apply (smooth_losses _ _ _ _ _ _ of_losses); exact some.
  Qed.
  Lemma next_near t : ||x (S t) - xs||^2 <= ||asked t||^2.
  Proof.
    rewrite <- (same_square _ _ (next_model t)). eapply Rle_trans; [apply mean_shorter|].
    eapply Rle_trans; [apply turned_shorter|]. pose proof factor as D.
    pose proof (inner_pos (asked t)) as P.
    set (d := 2 * r - 1) in *. assert (0 <= (1 - d ^ 2) * ||asked t||^2) by (apply Rmult_le_pos;
      nra). lra.
  Qed.
End Rate.

(** * Theorem: the rate, for every T; so far away are the potential, gamma_T and x_{T+1}. *)
Theorem feddyn_rate (E : space) N alpha mu L f g (xs : E) x y h : 0 < alpha -> 0 <= mu < L ->
  losses N mu L f g xs -> feddyn_run N alpha g x y h -> forall T,
  let bound := (rate alpha mu L ^ 2) ^ T * far N alpha g xs (x 0%nat) (h 0%nat) in
  far N alpha g xs (x T) (h T) <= bound /\
  ||gamma N alpha (x T) (h T) - xs||^2 <= bound /\ ||x (S T) - xs||^2 <= bound.
Proof.
  intros Ha Hm Lo Ru T bound. pose proof (some_clients _ _ _ _ _ _ Lo) as some.
  pose proof (bounded N alpha mu L f g xs x y h Ha Hm Lo Ru T) as B. fold bound in B.
  split; [exact B|]. split; (eapply Rle_trans; [|exact B]).
  - eapply Rle_trans; [|apply (mean_shorter N mu L f g xs Lo)]. right. apply same_square. intros z.
    rewrite inner_vmean, (mean_ext N _ (fun k => inner (x T) z
      + / alpha * inner (h T k) z - inner xs z - / alpha * inner (g k xs) z))
      by (intros; unfold asked; expand; lra).
    rewrite !mean_minus, mean_plus, !mean_times, !(mean_const N some),
      <- (inner_vmean N (fun k => g k xs)).
    rewrite (flat_at_xs N mu L f g xs Hm Lo z), inner_zero. unfold gamma. expand.
    rewrite inner_vmean. lra.
  - apply (next_near N alpha mu L f g xs x y h Ha Hm Lo Ru).
Qed.

(** From stored gradients 0, as FedDyn starts. *)
Corollary feddyn_rate_from_zero (E : space) N alpha mu L f g (xs : E) x y h : 0 < alpha -> 0
  <= mu < L ->
  losses N mu L f g xs -> feddyn_run N alpha g x y h -> (forall k, h 0%nat k = zero) -> forall T,
  ||x (S T) - xs||^2 <= (rate alpha mu L ^ 2) ^ T *
    (||x 0%nat - xs||^2 + / alpha ^ 2 * mean N (fun k => ||g k xs||^2)).
Proof.
  intros Ha Hm Lo Ru H0 T. pose proof (some_clients _ _ _ _ _ _ Lo) as some.
  destruct (feddyn_rate E N alpha mu L f g xs x y h Ha Hm Lo Ru T) as (_ & _ & B).
  eapply Rle_trans; [exact B|].
  right. f_equal. unfold far.
  rewrite (mean_ext N _ (fun k => ||x 0%nat - xs||^2 + (-2 * / alpha * << g k xs, x 0%nat - xs >>
    + / alpha ^ 2 * ||g k xs||^2))).
  - rewrite !mean_plus, !mean_times, (mean_const N some), <- (inner_vmean N (fun k => g k xs)).
    rewrite (flat_at_xs N mu L f g xs Hm Lo), inner_zero. lra.
  - intros k _. rewrite H0. expand. rewrite ?(inner_sym (x 0%nat) (g k xs)),
    ?(inner_sym xs (g k xs)), ?(inner_sym xs (x 0%nat)). field. lra.
Qed.
Print Assumptions feddyn_rate.
Print Assumptions feddyn_rate_from_zero.
