(** Sums, means, the interpolation inequality of the class of losses, and stationarity. *)
From Coq Require Import Reals Lra Lia.
From Fedtheory Require Export definitions.
Open Scope R_scope.

Lemma inner_add_r {E : space} (x y z : E) : inner x (add y z) = inner x y + inner x z.
Proof. rewrite inner_sym, inner_add, !(inner_sym x); reflexivity. Qed.
Lemma inner_scale_r {E : space} a (x y : E) : inner x (scale a y) = a * inner x y.
Proof. rewrite inner_sym, inner_scale, inner_sym; reflexivity. Qed.
Lemma inner_zero_r {E : space} (x : E) : inner x zero = 0.
Proof. rewrite inner_sym; apply inner_zero. Qed.
Ltac expand := unfold sub in *; repeat (rewrite ?inner_add, ?inner_add_r, ?inner_scale,
  ?inner_scale_r, ?inner_zero, ?inner_zero_r in *).
Lemma inner_sub {E : space} (x y z : E) : <<x - y, z>> = <<x, z>> - <<y, z>>.
Proof. expand; lra. Qed.
Lemma inner_sub_r {E : space} (x y z : E) : <<x, y - z>> = <<x, y>> - <<x, z>>.
Proof. expand; lra. Qed.

(** Vectors with the same inner products are equal. *)
Lemma same {E : space} (x y : E) : (forall w, inner x w = inner y w) -> x = y.
Proof. intros H; apply inner_definite; fold (sub x y); rewrite inner_sub, !H; lra. Qed.

Lemma sum_ext n u v : (forall k, (k < n)%nat -> u k = v k) -> sum n u = sum n v.
Proof. induction n; simpl; intros H; [reflexivity | rewrite IHn, H; auto]. Qed.
Lemma sum_plus n u v : sum n (fun k => u k + v k) = sum n u + sum n v.
Proof. induction n; simpl; [lra | rewrite IHn; lra]. Qed.
Lemma sum_times n a u : sum n (fun k => a * u k) = a * sum n u.
Proof. induction n; simpl; [lra | rewrite IHn; lra]. Qed.
Lemma sum_const n a : sum n (fun _ => a) = INR n * a.
Proof. induction n; [simpl; lra | rewrite S_INR; simpl sum; rewrite IHn; lra]. Qed.
Lemma sum_pos n u : (forall k, (k < n)%nat -> 0 <= u k) -> 0 <= sum n u.
Proof.
  induction n; simpl; intros H; [lra|].
  assert (0 <= u n) by (apply H; lia).
  assert (0 <= sum n u) by (apply IHn; intros; apply H; lia). lra.
Qed.
Lemma inner_vsum {E : space} n (u : nat -> E) w :
  inner (vsum n u) w = sum n (fun k => inner (u k) w).
Proof. induction n; simpl; [apply inner_zero | rewrite inner_add, IHn; reflexivity]. Qed.

Section Mean.
  Variable N : nat.
  Hypothesis some : (1 <= N)%nat.
  Lemma mean_ext u v : (forall k, (k < N)%nat -> u k = v k) -> mean N u = mean N v.
  Proof. intros H; unfold mean; rewrite (sum_ext N u v H); reflexivity. Qed.
  Lemma mean_plus u v : mean N (fun k => u k + v k) = mean N u + mean N v.
  Proof. unfold mean; rewrite sum_plus; lra. Qed.
  Lemma mean_times a u : mean N (fun k => a * u k) = a * mean N u.
  Proof. unfold mean; rewrite sum_times; lra. Qed.
  Lemma mean_minus u v : mean N (fun k => u k - v k) = mean N u - mean N v.
  Proof.
    rewrite (mean_ext _ (fun k => u k + -1 * v k)) by (intros; lra).
    rewrite mean_plus, mean_times; lra.
  Qed.
  Lemma size : 0 < INR N. Proof. apply lt_0_INR; lia. Qed.
  Lemma mean_const a : mean N (fun _ => a) = a.
  Proof. pose proof size; unfold mean; rewrite sum_const; field; lra. Qed.
  Lemma mean_pos u : (forall k, (k < N)%nat -> 0 <= u k) -> 0 <= mean N u.
  Proof.
    intros H; unfold mean; apply Rmult_le_pos;
      [left; apply Rinv_0_lt_compat, size | apply sum_pos, H].
  Qed.
  Lemma mean_le u v : (forall k, (k < N)%nat -> u k <= v k) -> mean N u <= mean N v.
  Proof.
    intros H; apply Rminus_le.
    assert (0 <= mean N (fun k => v k - u k)); [|rewrite mean_minus in *; lra].
    apply mean_pos; intros k Hk; specialize (H k Hk); lra.
  Qed.
  Lemma inner_vmean {E : space} (u : nat -> E) w :
    inner (vmean N u) w = mean N (fun k => inner (u k) w).
  Proof. unfold vmean, mean; rewrite inner_scale, inner_vsum; reflexivity. Qed.
End Mean.

(** The interpolation inequality of smooth convex losses, and of strongly convex ones. *)
Lemma interpolation0 {E : space} L (f : E -> R) (g : E -> E) : 0 < L ->
  (forall x y, f x + <<g x, y - x>> <= f y) ->
  (forall x y, f y <= f x + <<g x, y - x>> + L / 2 * ||y - x||^2) ->
  forall x y, f x + <<g x, y - x>> + / (2 * L) * ||g y - g x||^2 <= f y.
Proof.
  intros HL below above x y.
  set (z := (y - / L * (g y - g x))%vec).
  pose proof (below x z) as Hx; pose proof (above y z) as Hy.
  assert (Hz : forall w, inner z w = inner y w - / L * (inner (g y) w - inner (g x) w))
    by (intros; subst z; expand; lra).
  assert (Hl : L * / L = 1) by (field; lra).
  replace (/ (2 * L)) with (/ 2 * / L) by (field; lra).
  rewrite !inner_sub_r, !inner_sub in *.
  rewrite ?(inner_sym (g x) z), ?(inner_sym (g y) z), ?(inner_sym y z), ?Hz, ?(inner_sym _ z),
    ?Hz in *.
  rewrite ?(inner_sym (g y) (g x)), ?(inner_sym (g x) y), ?(inner_sym (g y) y),
    ?(inner_sym (g x) x) in *.
  generalize dependent (/ L); intros l; intros.
  set (e := inner (g y) (g y) - 2 * inner (g x) (g y) + inner (g x) (g x)).
  assert (He : L / 2 * (l * (l * e)) = / 2 * (l * e))
    by (replace (L / 2 * (l * (l * e))) with (/ 2 * (L * l) * (l * e)) by lra; rewrite Hl; lra).
  subst e; lra.
Qed.

Lemma interpolation {E : space} mu L s (f : E -> R) (g : E -> E) :
  mu < L -> 2 * (L - mu) * s = 1 -> smooth_convex mu L f g ->
  forall x y, f x + <<g x, y - x>> + s * ||g y - g x||^2 + mu * L * s * ||y - x||^2
    - 2 * mu * s * <<g y - g x, y - x>> <= f y.
Proof.
  intros HL Hs [below above] x y.
  pose proof (interpolation0 (L - mu) (fun x => f x - mu / 2 * ||x||^2)
    (fun x => (g x - mu * x)%vec) ltac:(lra)) as I; cbv beta in I.
  assert (B : forall x y,
    f x - mu / 2 * ||x||^2 + << g x - mu * x, y - x>> <= f y - mu / 2 * ||y||^2).
  { intros u v; specialize (below u v); expand; rewrite ?(inner_sym v u) in *; lra. }
  assert (A : forall x y, f y - mu / 2 * ||y||^2
    <= f x - mu / 2 * ||x||^2 + << g x - mu * x, y - x>> + (L - mu) / 2 * ||y - x||^2).
  { intros u v; specialize (above u v); expand; rewrite ?(inner_sym v u) in *; lra. }
  specialize (I B A x y). replace (/ (2 * (L - mu))) with s in I by (field_simplify_eq; lra).
  assert (Hm : forall t, mu * L * s * t = mu * mu * s * t + mu / 2 * t).
  { intros t; transitivity (mu * mu * s * t + mu / 2 * t * (2 * (L - mu) * s));
      [field | rewrite Hs; lra]. }
  rewrite Hm. clear Hm Hs B A below above. expand.
  rewrite ?(inner_sym y x), ?(inner_sym y (g y)), ?(inner_sym y (g x)), ?(inner_sym x (g y)),
    ?(inner_sym x (g x)) in *. lra.
Qed.

(** At a minimum the mean gradient is 0. *)
Lemma stationary {E : space} N mu L r z f g (xs x0 : E) : 0 < L ->
  setting N mu L r z f g xs x0 -> forall v, inner (vmean N (fun k => g k xs)) v = 0.
Proof.
  intros HL S v.
  set (a := inner (vmean N (fun k => g k xs)) v); set (b := ||v||^2).
  assert (Hb : 0 <= b) by apply inner_pos.
  assert (H : forall t, 0 <= t * a + t * t * (L / 2 * b)).
  { intros t. pose proof (optimal S (xs + t * v)%vec) as O; unfold objective in O.
    assert (D : 0 <= mean N (fun k =>
      f k xs + t * inner (g k xs) v + t * t * (L / 2 * b) - f k (xs + t * v)%vec)).
    { apply mean_pos; [apply (some_client S) | intros k Hk].
      destruct (in_class S k Hk) as [_ above]; specialize (above xs (xs + t * v)%vec).
      subst b; expand. rewrite ?(inner_sym v xs) in above; lra. }
    rewrite mean_minus, !mean_plus, mean_times, (mean_const N (some_client S)) in D.
    subst a; rewrite inner_vmean; lra. }
  set (s := / (L * b + 1)). assert (Hs : 0 < s) by (apply Rinv_0_lt_compat; nra).
  assert (Hm : s * (L * b) = 1 - s) by (subst s; field; nra).
  specialize (H (- (s * a))). assert (0 <= a * a * s * (s * (L * b) / 2 - 1)) by lra.
  rewrite Hm in H0. assert (a * a * s * (1 + s) <= 0) by nra. assert (0 <= a * a) by nra.
  destruct (Req_dec a 0) as [|n]; [assumption | exfalso].
  assert (0 < a * a) by nra. assert (0 < a * a * s) by nra. nra.
Qed.
