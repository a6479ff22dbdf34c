(** FedDyn of everybody converges linearly on strongly convex losses, for every alpha > 0 and any
    number of clients: at the rate max(alpha/(alpha + mu), L/(L + alpha))^2, which is attained. *)
From Coq Require Import Reals Lra Lia.
From Fedtheory Require Import facts methods_defined cohorts.
From Theorems Require Import round feddyn.
Open Scope R_scope.

(** * Definitions *)

(** A run of FedDyn as in [feddyn], but from any stored gradients. *)
Record feddyn_run {E : space} N (alpha : R) (g : nat -> E -> E)
    (x : nat -> E) (y h : nat -> nat -> E) : Prop := {
  run_work : forall t k, (k < N)%nat -> solved alpha g k (h t k) (x t) (y (S t) k);
  run_kept : forall t k, (k < N)%nat -> h (S t) k = (h t k - alpha * (y (S t) k - x t))%vec;
  run_model : forall t, x (S t) = (vmean N (y (S t)) - / alpha * vmean N (h (S t)))%vec }.
Arguments run_work {_ _ _ _ _ _ _}. Arguments run_kept {_ _ _ _ _ _ _}.
Arguments run_model {_ _ _ _ _ _ _}.

(** The potential: with s_k = x + h_k/alpha, the mean of squared distances from what s_k is at the
    optimum. *)
Definition far {E : space} N alpha (g : nat -> E -> E) (xs x : E) (h : nat -> E) : R :=
  mean N (fun k => ||(x + / alpha * h k) - (xs + / alpha * g k xs)||^2).
Definition rate alpha mu L := Rmax (alpha / (alpha + mu)) (L / (L + alpha)).

(** * Proof *)

Lemma cocoercive {E : space} mu L (f : E -> R) (g : E -> E) (x y : E) :
  0 <= mu < L -> smooth_convex mu L f g ->
  0 <= (L + mu) * << g y - g x, y - x >> - mu * L * ||y - x||^2 - ||g y - g x||^2.
Proof.
  intros Hm F.
  pose proof (interpolation mu L (/ (2 * (L - mu))) f g ltac:(lra) ltac:(field; lra) F) as J.
  pose proof (J x y) as J1. pose proof (J y x) as J2. set (D := (g y - g x)%vec).
  apply Rmult_le_reg_l with (/ (L - mu)); [apply Rinv_0_lt_compat; lra|]. rewrite Rmult_0_r.
  replace (/ (L - mu) * ((L + mu) * <<D, y - x>> - mu * L * ||y - x||^2 - ||D||^2))
    with (<<D, y - x>> - / (2 * (L - mu)) *
      (2 * (||D||^2 + mu * L * ||y - x||^2 - 2 * mu * <<D, y - x>>))) by (field; lra).
  subst D. generalize dependent (/ (2 * (L - mu))); intros i; intros. expand.
  rewrite ?(inner_sym y x), ?(inner_sym x (g x)), ?(inner_sym x (g y)), ?(inner_sym y (g x)),
    ?(inner_sym y (g y)), ?(inner_sym (g y) (g x)) in *. nra.
Qed.

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
  { pose proof (cocoercive mu L f g x y Hm F) as K. pose (D := (g y - g x)%vec). fold D in K.
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
  Let r := rate alpha mu L.

  Definition size (u : nat -> E) : R := mean N (fun k => ||u k||^2).
  (** What local problems are asked at, what their reflection is, and the reflection with means
      turned. *)
  Definition asked (t k : nat) : E :=
    ((x t + / alpha * h t k) - (xs + / alpha * g k xs))%vec.
  Definition turned (t k : nat) : E :=
    ((y (S t) k - xs) - / alpha * (g k (y (S t) k) - g k xs))%vec.
  Definition mirrored (t k : nat) : E := (2 * vmean N (turned t) - turned t k)%vec.

  Lemma flat_at_xs : alike (vmean N (fun k => g k xs)) zero.
  Proof.
    intros z. set (m := mean N (fun k => ||g k xs||^2)). rewrite inner_zero.
    apply (stationary N mu L 0 (1 + m) f g xs xs ltac:(lra)).
    assert (0 <= m) by (apply mean_pos_; intros; apply inner_pos).
    constructor; [exact some | exact (smooth_losses _ _ _ _ _ _ of_losses)
      | exact (optimum _ _ _ _ _ _ of_losses) | expand; lra | fold m; nra].
  Qed.
  Lemma run_solved t k z : (k < N)%nat ->
    << g k (y (S t) k) - h t k + alpha * (y (S t) k - x t), z >> = 0.
  Proof. intros Hk. rewrite (run_work run t k Hk). apply inner_zero. Qed.
  Lemma run_stored t k z : (k < N)%nat -> inner (h (S t) k) z = inner (g k (y (S t) k)) z.
  Proof. intros Hk. pose proof (run_solved t k z Hk) as S. rewrite (run_kept run t k Hk). expand.
  lra. Qed.
  Lemma asked_is t k : (k < N)%nat ->
    alike (asked t k) ((y (S t) k - xs) + / alpha * (g k (y (S t) k) - g k xs))%vec.
  Proof.
    intros Hk z. pose proof (run_solved t k z Hk) as S. unfold asked. expand.
    apply Rmult_eq_reg_l with alpha; [|lra]. field_simplify; [|lra..]. lra.
  Qed.
  Lemma turned_shorter t : size (turned t) <= (2 * r - 1) ^ 2 * size (asked t).
  Proof.
    change (mean N (fun k => ||turned t k||^2)
      <= (2 * r - 1) ^ 2 * mean N (fun k => ||asked t k||^2)).
    rewrite <- mean_times. apply (mean_le N some); intros k Hk.
    rewrite (same_square _ _ (asked_is t k Hk)).
    apply (reflected alpha mu L (f k)); try assumption.
    apply (smooth_losses _ _ _ _ _ _ of_losses k Hk).
  Qed.
  Lemma mirrored_as_long t : size (mirrored t) = size (turned t).
  Proof.
    change (mean N (fun k => ||2 * vmean N (turned t) - turned t k||^2) = mean N (fun k =>
      ||turned t k||^2)).
    rewrite (mean_ext N _ (fun k => 4 * ||vmean N (turned t)||^2 - 4 * inner (turned t k) (vmean N
      (turned t)) + ||turned t k||^2))
      by (intros; expand; rewrite (inner_sym (vmean N (turned t)) (turned t k)); lra).
    rewrite mean_plus, mean_minus, mean_const, mean_times, <- inner_vmean by exact some. lra.
  Qed.
  Lemma next_model t : alike (vmean N (turned t)) (x (S t) - xs)%vec.
  Proof.
    intros z. rewrite inner_vmean, (run_model run). transitivity (mean N (fun k =>
      inner (y (S t) k) z - inner xs z - / alpha * (inner (h (S t) k) z - inner (g k xs) z))).
    - apply mean_ext; intros k Hk; unfold turned; rewrite (run_stored t k z Hk); expand; lra.
    - rewrite !mean_minus, mean_times, mean_minus, (mean_const N some), <- !inner_vmean.
      rewrite flat_at_xs, inner_zero. expand. lra.
  Qed.
  Lemma asked_next t k : (k < N)%nat ->
    alike (asked (S t) k) (/ 2 * (asked t k + mirrored t k))%vec.
  Proof.
    intros Hk z. pose proof (asked_is t k Hk z) as A. pose proof (next_model t z) as M.
    pose proof (run_stored t k z Hk) as H. unfold mirrored. unfold asked at 1. unfold turned at 2.
    rewrite inner_scale, inner_add, A. expand. rewrite M, H. lra.
  Qed.
  Lemma factor : 0 < 2 * r - 1 <= 1.
  Proof.
    apply (reflected alpha mu L (f 0%nat) (g 0%nat) xs xs); try assumption.
    apply (smooth_losses _ _ _ _ _ _ of_losses); exact some.
  Qed.
  Lemma falls_by t : size (asked (S t)) <= r ^ 2 * size (asked t).
  Proof.
    assert (E1 : size (asked (S t)) = / 4 * mean N (fun k => ||asked t k + mirrored t k||^2)).
    { unfold size. rewrite <- mean_times. apply mean_ext; intros k Hk.
      rewrite (same_square _ _ (asked_next t k Hk)), inner_scale, inner_scale_r. lra. }
    pose proof (turned_shorter t) as T. rewrite <- mirrored_as_long in T. pose proof factor as D.
    set (d := 2 * r - 1) in *. set (b := mean N (fun k => << asked t k, mirrored t k >>)).
    assert (E2 : size (asked (S t)) = / 4 * (size (asked t) + 2 * b + size (mirrored t))).
    { rewrite E1. unfold size, b. rewrite <- (mean_times N 2), <- !mean_plus. f_equal.
    apply mean_ext.
      intros k _. expand. rewrite (inner_sym (mirrored t k) (asked t k)). lra. }
    assert (Q : 0 <= d ^ 2 * size (asked t) - 2 * d * b + size (mirrored t)).
    { unfold size, b. rewrite <- !mean_times, <- mean_minus, <- mean_plus.
      apply mean_pos_; intros k _. pose proof (inner_pos (d * asked t k - mirrored t k)%vec) as P.
      expand. rewrite (inner_sym (mirrored t k) (asked t k)) in P. lra. }
    assert (b <= d * size (asked t)) by (apply Rmult_le_reg_l with (2 * d); [lra|]; lra).
    rewrite E2. unfold d in *. lra.
  Qed.
  Lemma far_is t : far N alpha g xs (x t) (h t) = size (asked t). Proof. reflexivity. Qed.
  Lemma bounded t : size (asked t) <= (r ^ 2) ^ t * size (asked 0%nat).
  Proof.
    induction t; [simpl; lra|]. eapply Rle_trans; [apply falls_by|]. simpl (_ ^ S t).
    rewrite Rmult_assoc.
    apply Rmult_le_compat_l; [nra | exact IHt].
  Qed.
  Lemma mean_shorter (u : nat -> E) : ||vmean N u||^2 <= size u.
  Proof.
    change (||vmean N u||^2 <= mean N (fun k => ||u k||^2)).
    assert (0 <= mean N (fun k => ||u k - vmean N u||^2)) as P by (apply mean_pos_; intros;
      apply inner_pos).
    rewrite (mean_ext N _ (fun k => ||u k||^2 - 2 * inner (u k) (vmean N u)
      + ||vmean N u||^2)) in P
      by (intros; expand; rewrite (inner_sym (vmean N u) (u k)); lra).
    rewrite mean_plus, mean_minus, mean_const, mean_times, <- inner_vmean in P by exact some. lra.
  Qed.
  Lemma next_near t : ||x (S t) - xs||^2 <= size (asked t).
  Proof.
    rewrite <- (same_square _ _ (next_model t)). eapply Rle_trans; [apply mean_shorter|].
    eapply Rle_trans; [apply turned_shorter|]. pose proof factor as D.
    assert (P : 0 <= size (asked t)) by (apply mean_pos_; intros; apply inner_pos).
    set (d := 2 * r - 1) in *. assert (0 <= (1 - d ^ 2) * size (asked t)) by (apply Rmult_le_pos;
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

(** FedDyn, whose stored gradients are 0 at first. *)
Corollary feddyn_rate_from_zero (E : space) N alpha mu L f g (xs x0 : E) x y h :
  0 < alpha -> 0 <= mu < L -> losses N mu L f g xs -> feddyn N solved alpha g x0 x y h -> forall T,
  ||x (S T) - xs||^2 <= (rate alpha mu L ^ 2) ^ T *
    (||x0 - xs||^2 + / alpha ^ 2 * mean N (fun k => ||g k xs||^2)).
Proof.
  intros Ha Hm Lo [start none work kept mod_] T. pose proof (some_clients _ _ _ _ _ _ Lo) as some.
  assert (Ru : feddyn_run N alpha g x y h) by (constructor; assumption).
  destruct (feddyn_rate E N alpha mu L f g xs x y h Ha Hm Lo Ru T) as (_ & _ & B).
  eapply Rle_trans; [exact B|]. right. f_equal. unfold far. rewrite start.
  rewrite (mean_ext N _ (fun k => ||x0 - xs||^2
    + (-2 * / alpha * << g k xs, x0 - xs >> + / alpha ^ 2 * ||g k xs||^2))).
  - rewrite !mean_plus, !mean_times, (mean_const N some), <- (inner_vmean N (fun k => g k xs)).
    rewrite (flat_at_xs N mu L f g xs Hm Lo), inner_zero. lra.
  - intros k Hk. rewrite (none k Hk). expand. rewrite ?(inner_sym x0 (g k xs)),
      ?(inner_sym xs (g k xs)), ?(inner_sym xs x0). field. lra.
Qed.
Print Assumptions feddyn_rate.
Print Assumptions feddyn_rate_from_zero.

(** The rate is attained, by two equal parabolas: no smaller one is true. *)
Lemma parabola {E : space} N mu L a : (1 <= N)%nat -> 0 <= mu <= a -> a <= L ->
  losses (E := E) N mu L (fun _ x => a / 2 * ||x||^2) (fun _ x => a * x)%vec zero.
Proof.
  intros some Ha HL. constructor; [exact some | |].
  - intros k _; split; intros x y; pose proof (inner_pos (y - x)%vec) as P; expand;
      rewrite ?(inner_sym y x) in *; nra.
  - intros z. unfold objective. apply (mean_le N some); intros k _. rewrite inner_zero.
    pose proof (inner_pos z). nra.
Qed.
Theorem feddyn_rate_attained (E : space) alpha mu L (v : E) : 0 < alpha -> 0 <= mu < L ->
  exists (f : nat -> E -> R) (g : nat -> E -> E) (x : nat -> E) (y h : nat -> nat -> E),
    losses 2 mu L f g zero /\ feddyn_run 2 alpha g x y h /\ forall T,
      far 2 alpha g zero (x T) (h T) = (rate alpha mu L ^ 2) ^ T * ||v||^2.
Proof.
  intros Ha Hm. assert (P2 : forall r T, (r ^ 2) ^ T = r ^ T * r ^ T)
    by (intros; rewrite <- pow_mult, Nat.mul_comm, pow_mult; simpl; lra).
  unfold rate, Rmax. destruct (Rle_dec (alpha / (alpha + mu)) (L / (L + alpha))) as [_ | _].
  - set (r := L / (L + alpha)). set (sign := fun k : nat => match k with O => 1 | _ => -1 end).
    exists (fun _ x => L / 2 * ||x||^2), (fun _ x => L * x)%vec, (fun _ => zero),
      (fun t k => ((sign k * alpha / L * r ^ t)%R * v)%vec),
        (fun t k => ((sign k * alpha * r ^ t)%R * v)%vec).
    assert (R1 : r * (L + alpha) = L) by (unfold r; field; lra).
    split; [apply parabola; [lia | lra | lra] | split].
    + constructor.
      * intros t k _. unfold solved. apply same; intros z. expand. simpl pow.
        transitivity (sign k * alpha * r ^ t * / L * (r * (L + alpha) - L) * inner v z); [field;
          lra|].
        rewrite R1. field. lra.
      * intros t k _. apply same; intros z. expand. simpl pow.
        transitivity (sign k * alpha * r ^ t * / L * (r * (L + alpha) - alpha * r) * inner v z);
          [field; lra|].
        rewrite R1 at 1. field. lra.
      * intros t. apply same; intros z. unfold vmean; simpl. expand. lra.
    + intros T. rewrite P2. unfold far, mean, sign; simpl. expand. field. lra.
  - set (r := alpha / (alpha + mu)).
    exists (fun _ x => mu / 2 * ||x||^2), (fun _ x => mu * x)%vec,
      (fun t => ((1 - mu / alpha) * r ^ t)%R * v)%vec,
      (fun t _ => (r ^ t * v)%vec), (fun t _ => ((mu * r ^ t)%R * v)%vec).
    assert (R1 : r * (alpha + mu) = alpha) by (unfold r; field; lra).
    split; [apply parabola; [lia | lra | lra] | split].
    + constructor.
      * intros t k _. unfold solved. apply same; intros z. expand. simpl pow.
        transitivity (r ^ t * (r * (alpha + mu) - alpha) * inner v z); [field; lra|]. rewrite R1.
        lra.
      * intros t k _. apply same; intros z. expand. simpl pow.
        transitivity (r ^ t * (alpha - alpha * r) * inner v z); [rewrite <- R1 at 1; lra | field;
          lra].
      * intros t. apply same; intros z. unfold vmean; simpl. expand. field. lra.
    + intros T. rewrite P2. unfold far, mean; simpl. expand. field. lra.
Qed.
Print Assumptions feddyn_rate_attained.
