(** SCAFFOLD of everybody converges linearly on strongly convex losses, at the rate of as many
    steps of gradient descent, which is the best: for every K, any number of clients and steps up
    to 3/(10 K L). *)
From Coq Require Import Reals Lra Lia.
From Fedtheory Require Import facts methods_defined cohorts.
From Theorems Require Import round feddyn feddyn_rate.
Open Scope R_scope.

(** * Definitions *)

(** The weight w of the control variates in the potential ||x - xs||^2 + w mean||c_k - mean c -
    grad f_k(xs)||^2. *)
Definition weight mu L step K := 3 * (1 - mu * step) * (INR K * step) ^ 3 * L ^ 2 / (L - mu).
Definition scaffold_potential {E : space} N w (g : nat -> E -> E) (xs : E)
    (s : E * (nat -> E)) : R :=
  ||fst s - xs||^2 + w * mean N (fun k => ||snd s k - vmean N (snd s) - g k xs||^2).

(** A round of a cohort from the model and the control variates of all clients, whose mean the
    server keeps: [K] steps of every member, then the mean of the members' models and new variates
    of theirs (option II). *)
Definition scaffold_next {E : space} N P (step : R) (K : nat) (g : nat -> E -> E)
    (who : cohort) (s : E * (nat -> E)) : E * (nat -> E) :=
  let (x, c) := s in let y k := steered N step g c k x K in
  (cohort_mean N P who y,
    fun k => if who k then (c k - vmean N c + / (INR K * step) * (x - y k))%vec else c k).
(** The potential of a round with cohorts; h is K step. *)
Definition cohort_potential {E : space} N P L (h : R) (g : nat -> E -> E) (xs : E)
    (s : E * (nat -> E)) : R :=
  ||fst s - xs||^2 + INR N / INR P * (2 * sampling_spread N P * h ^ 2 + 2 / 3 * L * h ^ 3) *
    mean N (fun k => ||snd s k - g k xs||^2).

(** * Proof *)
Lemma mean_split {E : space} N (some : (1 <= N)%nat) (u v : nat -> E) :
  mean N (fun k => <<u k, v k>>) = <<vmean N u, vmean N v>>
    + mean N (fun k => << u k - vmean N u, v k - vmean N v >>).
Proof.
  rewrite (mean_ext N (fun k => << u k - vmean N u, v k - vmean N v >>) (fun k =>
    <<u k, v k>> - inner (u k) (vmean N v) - inner (v k) (vmean N u) + <<vmean N u, vmean N v>>))
    by (intros; expand; rewrite (inner_sym (vmean N u) (v k)); lra).
  rewrite mean_plus, !mean_minus, (mean_const N some), <- !inner_vmean, (inner_sym (vmean N v)).
  lra.
Qed.
Lemma square_of_sum {E : space} n (u : nat -> E) : ||vsum n u||^2
  <= INR n * sum n (fun i => ||u i||^2).
Proof.
  destruct n as [|n]; [simpl; rewrite inner_zero; lra|]. assert (P : 0 < INR (S n))
    by (apply lt_0_INR; lia).
  pose proof (mean_split (S n) ltac:(lia) u u) as M.
  assert (0 <= mean (S n) (fun k => ||u k - vmean (S n) u||^2)) by (apply mean_pos_; intros;
    apply inner_pos).
  assert (V : ||vmean (S n) u||^2 = / INR (S n) * / INR (S n) * ||vsum (S n) u||^2)
    by (unfold vmean; rewrite inner_scale, inner_scale_r; lra).
  rewrite V in M. unfold mean in M at 1.
  assert (I : / INR (S n) * / INR (S n) * ||vsum (S n) u||^2
    <= / INR (S n) * sum (S n) (fun i => ||u i||^2)) by lra.
  apply (Rmult_le_compat_l (INR (S n) * INR (S n))) in I; [|nra].
  eapply Rle_trans; [|eapply Rle_trans; [exact I|]]; right; field; lra.
Qed.
Lemma mean_sum {n N} (u : nat -> nat -> R) :
  mean N (fun k => sum n (fun i => u i k)) = sum n (fun i => mean N (u i)).
Proof.
  induction n; simpl.
  - unfold mean. rewrite sum_const. lra.
  - rewrite mean_plus, IHn. reflexivity.
Qed.
Lemma sum_le n u v : (forall k, (k < n)%nat -> u k <= v k) -> sum n u <= sum n v.
Proof.
  induction n; simpl; intros H; [lra|]. assert (u n <= v n) by (apply H; lia).
  assert (sum n u <= sum n v) by (apply IHn; intros; apply H; lia). lra.
Qed.
Lemma sum_of_indices n : sum n INR <= INR n ^ 2 / 2.
Proof. induction n; [simpl; lra | rewrite S_INR; cbn [sum]; lra]. Qed.
Lemma sum_of_squares n : sum n (fun i => INR i ^ 2) <= INR n ^ 3 / 3.
Proof.
  induction n; [simpl; lra|]. pose proof (pos_INR n). rewrite S_INR. cbn [sum]. lra.
Qed.
Lemma bernoulli r t n : 0 <= r <= 1 -> 1 - t <= r -> 0 <= t -> 1 - INR n * t <= r ^ n.
Proof.
  intros Hr Ht T0. induction n; [simpl; lra|]. rewrite S_INR. simpl pow. pose proof (pos_INR n).
  assert (r ^ n <= 1) by (rewrite <- (pow1 n); apply pow_incr; lra).
  assert (0 <= r ^ n) by (apply pow_le; lra).
  assert (0 <= (r - (1 - t)) * r ^ n) by (apply Rmult_le_pos; lra).
  assert (0 <= t * (1 - r ^ n)) by (apply Rmult_le_pos; lra). lra.
Qed.

Lemma between1 {E : space} L (f : E -> R) (g : E -> E) : 0 < L -> smooth_convex 0 L f g ->
  forall a b, f a + << g a, b - a >> + / (2 * L) * ||g b - g a||^2 <= f b.
Proof.
  intros HL [below above]. apply (interpolation0 L f g HL); [|exact above].
  intros u v; specialize (below u v); lra.
Qed.

(** What the losses say of the gap at [w] by the gradients at [y k]. *)
Lemma losses_at {E : space} N mu L (f : nat -> E -> R) (g : nat -> E -> E) (xs : E) :
  0 <= mu < L -> losses N mu L f g xs -> forall (y : nat -> E) (w : E),
  objective N f w - objective N f xs + / (2 * L) * mean N (fun k => ||g k (y k) - g k xs||^2)
    - L / 2 * mean N (fun k => ||y k - w||^2)
  <= << vmean N (fun k => g k (y k) - g k xs)%vec, w - xs >>.
Proof.
  intros Hm Lo y w. pose proof (some_clients _ _ _ _ _ _ Lo) as some. assert (L0 : 0 < L) by lra.
  assert (I : objective N f w - objective N f xs - << vmean N (fun k => g k (y k) - g k xs)%vec,
    w - xs >>
    = mean N (fun k => f k w - f k xs - inner (g k (y k)) (w - xs)%vec)).
  { rewrite !mean_minus. unfold objective. f_equal. rewrite inner_vmean,
      (mean_ext N _ (fun k => inner (g k (y k)) (w - xs)%vec - inner (g k xs) (w - xs)%vec))
      by (intros; apply inner_sub).
    rewrite mean_minus, <- (inner_vmean N (fun k => g k xs)), (flat_at_xs N mu L f g xs Hm Lo),
      inner_zero. lra. }
  enough (Q : mean N (fun k => f k w - f k xs - inner (g k (y k)) (w - xs)%vec)
    <= L / 2 * mean N (fun k => ||y k - w||^2) - / (2 * L) * mean N (fun k => ||g k (y k) - g k
      xs||^2)) by lra.
  rewrite <- !mean_times, <- mean_minus. apply (mean_le N some); intros k Hk.
  assert (F : smooth_convex 0 L (f k) (g k)).
  { destruct (smooth_losses _ _ _ _ _ _ Lo k Hk) as [low up]. split; [|exact up].
    intros u v. specialize (low u v). pose proof (inner_pos (v - u)%vec). nra. }
  pose proof (between1 L (f k) (g k) L0 F (y k) xs) as J1.
  pose proof (between1 L (f k) (g k) L0 F w (y k)) as J2.
  set (u := (g k (y k) - g k w)%vec) in *. set (b := (y k - w)%vec) in *.
  pose proof (inner_pos (/ L * u - b)%vec) as Pq.
  assert (Pq2 : 0 <= / (2 * L) * ||u||^2 - <<u, b>> + L / 2 * ||b||^2).
  { assert (0 < / L) by (apply Rinv_0_lt_compat; lra).
    apply Rmult_le_reg_l with (2 * / L); [lra|]. rewrite Rmult_0_r.
    eapply Rle_trans; [exact Pq | right]. expand. rewrite (inner_sym b u). field. lra. }
  assert (Gs : ||g k xs - g k (y k)||^2 = ||g k (y k) - g k xs||^2)
    by (expand; rewrite (inner_sym (g k xs) (g k (y k))); lra).
  rewrite Gs in J1. clear Pq. subst u b. expand. lra.
Qed.

(** Sums of the first vectors: by Cauchy's inequality with the weights K^2 - i^2. *)
Section Sums.
  Context {E : space} (K : nat) (u : nat -> E).
  Let a (n : nat) : R := INR K ^ 2 - INR n ^ 2.
  Let A (n : nat) : R := sum n a.
  Let B (n : nat) : R := sum K A - sum n A.
  Lemma weights_are n : A n = INR n * INR K ^ 2 - (INR n - 1) * INR n * (2 * INR n - 1) / 6.
  Proof. unfold A. induction n; [simpl; lra | cbn [sum]; rewrite IHn, S_INR; unfold a; lra]. Qed.
  Lemma all_weights n : sum n A = INR K ^ 2 * INR n * (INR n - 1) / 2
    - INR n * (INR n - 1) ^ 2 * (INR n - 2) / 12.
  Proof.
    induction n; [simpl; lra | cbn [sum]; rewrite IHn, weights_are, S_INR; lra].
  Qed.
  Lemma weight_pos n : (n < K)%nat -> 0 < a n.
  Proof. intros H. apply lt_INR in H. pose proof (pos_INR n). unfold a. nra. Qed.
  Lemma weights_pos n : (S n <= K)%nat -> 0 < A (S n).
  Proof.
    unfold A. induction n; intros H; cbn [sum] in *; pose proof (weight_pos _ H); [lra|].
    specialize (IHn ltac:(lia)). lra.
  Qed.
  Lemma left_pos n : (n <= K)%nat -> 0 <= B n.
  Proof.
    intros H. unfold B. enough (M : forall j, (n <= j <= K)%nat -> sum n A <= sum j A)
      by (specialize (M K ltac:(lia)); lra).
    induction j; intros Hj; [replace n with O by lia; lra|].
    destruct (Nat.eq_dec n (S j)) as [->|]; [lra|]. specialize (IHj ltac:(lia)). cbn [sum].
    assert (0 <= A j) by (destruct j; [apply Rle_refl | left; apply weights_pos; lia]). lra.
  Qed.
  Lemma left_small n : (n < K)%nat -> 12 * B (S n) <= 5 * INR K ^ 2 * a n.
  Proof.
    intros H. apply le_INR in H. unfold B, a. rewrite !all_weights. rewrite S_INR in *.
    pose proof (pos_INR n) as P. set (k := INR K) in *. set (i := INR n) in *. clearbody k i.
    assert (0 <= k * k) by nra. assert (0 <= k * k * k) by nra. assert (0 <= k * k * i) by nra.
    assert (0 <= i * i * (k * k - i * i)) by (apply Rmult_le_pos; nra). nra.
  Qed.
  Lemma sums_up_to n : (n <= K)%nat -> sum n (fun j => ||vsum j u||^2) + B n / A n * ||vsum n u||^2
    <= 5 / 12 * INR K ^ 2 * sum n (fun j => ||u j||^2).
  Proof.
    induction n; intros H; cbn [sum vsum]; [rewrite inner_zero; lra|]. specialize (IHn ltac:(lia)).
    assert (A1 : A (S n) = A n + a n) by reflexivity.
    assert (B1 : B n = B (S n) + A n) by (unfold B; cbn [sum]; lra).
    pose proof (left_pos _ H) as P. pose proof (left_small n H) as Q. pose proof (weight_pos n H) as W.
    pose proof (weights_pos n H) as V. rewrite A1 in *. rewrite B1 in IHn.
    set (b := B (S n)) in *. set (w := a n) in *. set (s := vsum n u) in *. set (v := u n) in *.
    set (k := 5 / 12 * INR K ^ 2) in *. assert (R0 : b / w <= k).
    { apply Rmult_le_reg_r with w; [exact W|]. replace (b / w * w) with b by (field; lra). unfold k; lra. }
    pose proof (inner_pos v) as v0. apply (Rmult_le_compat_r _ _ _ v0) in R0.
    rewrite Rmult_plus_distr_l. destruct n.
    - assert (s0 : forall z, inner s z = 0) by apply inner_zero.
      assert (N1 : ||s + v||^2 = ||v||^2)
        by (rewrite inner_add, s0, inner_sym, inner_add, s0; lra).
      rewrite N1, s0. change (A 0) with 0. cbn [sum]. rewrite !Rplus_0_l. lra.
    - assert (V' : 0 < A (S n)) by (apply weights_pos; lia). set (c := A (S n)) in *.
      assert (T : b / (c + w) * ||s + v||^2 <= b / c * ||s||^2 + b / w * ||v||^2).
      { pose proof (inner_pos (w * s - c * v)%vec) as T. apply Rminus_le.
        replace (b / (c + w) * ||s + v||^2 - (b / c * ||s||^2 + b / w * ||v||^2))
          with (- (b / (c * w * (c + w)) * ||w * s - c * v||^2))
          by (expand; rewrite (inner_sym v s); field; lra).
        assert (0 <= b / (c * w * (c + w))) by (apply Rmult_le_pos; [exact P | left;
          apply Rinv_0_lt_compat; repeat apply Rmult_lt_0_compat; lra]). nra. }
      replace ((b + c) / c) with (b / c + 1) in IHn by (field; lra). lra.
  Qed.
  Lemma sums_small : sum K (fun j => ||vsum j u||^2)
    <= 5 / 12 * INR K ^ 2 * sum K (fun j => ||u j||^2).
  Proof.
    pose proof (sums_up_to K (le_n K)) as H. unfold B at 1, Rminus in H.
    rewrite Rplus_opp_r in H. unfold Rdiv at 1 in H. lra.
  Qed.
End Sums.

Section Scaffold.
  Context {E : space} (N : nat) (mu L step : R) (K : nat) (f : nat -> E -> R) (g : nat -> E ->
    E) (xs : E).
  Hypothesis mu_below : 0 <= mu < L.
  Hypothesis step_pos : 0 < step.
  Hypothesis some_steps : (1 <= K)%nat.
  Hypothesis small : INR K * step * L <= 3 / 10.
  Hypothesis of_losses : losses N mu L f g xs.
  Let some := some_clients _ _ _ _ _ _ of_losses.
  Context (x : E) (c : nat -> E).
  Let y (j k : nat) : E := steered N step g c k x j.
  Let G (j k : nat) : E := (g k (y j k) - g k xs)%vec.
  Let d (k : nat) : E := (c k - vmean N c - g k xs)%vec.
  Let a (j k : nat) : E := (G j k - vmean N (G j))%vec.
  Let e (j k : nat) : E := (y j k - vmean N (y j))%vec.
  Let size (u : nat -> E) : R := mean N (fun k => ||u k||^2).
  Let r := 1 - mu * step.
  Let tau := 2 * step * r / (L - mu).
  Let q (j : nat) : R := mean N (fun k => (L + mu) * << a j k,
    e j k >> - ||a j k||^2 - mu * L * ||e j k||^2).

  Lemma step_small : step * L <= 3 / 10.
  Proof. apply (le_INR 1) in some_steps. simpl in some_steps. assert (0 < step * L) by nra. nra.
  Qed.
  Lemma r_between : 7 / 10 <= r <= 1.
  Proof. pose proof step_small. unfold r. nra. Qed.
  Lemma d_mean : alike (vmean N d) zero.
  Proof.
    intros z. rewrite inner_vmean. unfold d.
    rewrite (mean_ext N _ (fun k => inner (c k) z - inner (vmean N c) z - inner (g k xs) z))
      by (intros; expand; lra).
    rewrite !mean_minus, (mean_const N some), <- !inner_vmean,
      (flat_at_xs N mu L f g xs mu_below of_losses), inner_zero.
    lra.
  Qed.
  Lemma next_y j k : alike (y (S j) k) (y j k - step * (G j k - d k))%vec.
  Proof. intros z. unfold y at 1; cbn [steered]. fold (y j k). unfold G, d. expand. lra. Qed.
  Lemma next_mean j : alike (vmean N (y (S j))) (vmean N (y j) - step * vmean N (G j))%vec.
  Proof.
    intros z. rewrite inner_vmean, (mean_ext N _ (fun k => inner (y j k) z - step * (inner (G j k)
      z - inner (d k) z)))
      by (intros; rewrite (next_y j k z); expand; lra).
    rewrite mean_minus, mean_times, mean_minus, <- !inner_vmean, d_mean, inner_zero. expand. lra.
  Qed.
  Lemma next_e j k : alike (e (S j) k) (e j k - step * (a j k - d k))%vec.
  Proof. intros z. unfold e, a. rewrite inner_sub, (next_y j k z), (next_mean j z). expand. lra.
  Qed.
  Lemma e_is j k : alike (e j k) (- step * vsum j (fun i => a i k - d k))%vec.
  Proof.
    induction j; intros z.
    - unfold e, y; simpl. rewrite inner_sub, inner_vmean, (mean_const N some). expand. lra.
    - rewrite (next_e j k z), inner_sub, (IHj z). simpl vsum. expand. lra.
  Qed.

  (** One step of the mean of local models. *)
  Lemma step_of_mean j : ||vmean N (y (S j)) - xs||^2 <= r ^ 2 * ||vmean N (y j) - xs||^2
    + tau * q j.
  Proof.
    set (Y := (vmean N (y j) - xs)%vec). set (M := vmean N (G j)).
    rewrite (same_square _ (Y - step * M)%vec) by (intros z; rewrite inner_sub, (next_mean j z);
      unfold Y, M; expand; lra).
    assert (Q : 0 <= mean N (fun k => (L + mu) * << G j k,
      y j k - xs >> - ||G j k||^2 - mu * L * ||y j k - xs||^2)).
    { apply mean_pos_; intros k Hk.
      pose proof (cocoercive mu L (f k) (g k) xs (y j k) mu_below (smooth_losses _ _ _ _ _ _
        of_losses k Hk)) as C.
      unfold G. lra. }
    assert (V : alike (vmean N (fun k => y j k - xs)%vec) Y).
    { intros z. rewrite inner_vmean, (mean_ext N _ (fun k => inner (y j k) z - inner xs z))
      by (intros; apply inner_sub).
      rewrite mean_minus, (mean_const N some), <- inner_vmean. unfold Y. expand. lra. }
    assert (W : forall k, alike (y j k - xs - vmean N (fun k => y j k - xs)%vec)%vec (e j k)).
    { intros k z. rewrite inner_sub, (V z). unfold Y, e. expand. lra. }
    assert (S1 : mean N (fun k => << G j k, y j k - xs >>) = <<M, Y>> + mean N (fun k => << a j k,
      e j k >>)).
    { rewrite (mean_split N some (G j) (fun k => y j k - xs)%vec),
      (inner_sym _ (vmean N (fun k => _))), V, (inner_sym Y).
      f_equal. apply mean_ext; intros k _. rewrite inner_sym, (W k), inner_sym. reflexivity. }
    assert (S2 : mean N (fun k => ||G j k||^2) = ||M||^2
      + mean N (fun k => ||a j k||^2)) by exact (mean_split N some (G j) (G j)).
    assert (S3 : mean N (fun k => ||y j k - xs||^2) = ||Y||^2 + mean N (fun k => ||e j k||^2)).
    { rewrite (mean_split N some (fun k => y j k - xs)%vec (fun k => y j k - xs)%vec),
      (same_square _ _ V).
      f_equal. apply mean_ext; intros k _. apply same_square, W. }
    rewrite !mean_minus, !mean_times, S1, S2, S3 in Q. unfold q. rewrite !mean_minus, !mean_times.
    set (s := tau - step ^ 2).
    assert (s0 : 0 <= s).
    { unfold s, tau. apply Rmult_le_reg_l with (L - mu); [lra|].
      replace ((L - mu) * (2 * step * r / (L - mu) - step ^ 2))
        with (step * (2 * r - step * (L - mu))) by (field; lra).
      pose proof step_small. pose proof r_between. rewrite Rmult_0_r. apply Rmult_le_pos; nra. }
    assert (t0 : 0 <= tau) by (unfold s in s0; nra).
    pose proof (inner_pos (M - mu * Y)%vec) as P. apply (Rmult_le_pos _ _ s0) in P.
    apply (Rmult_le_pos _ _ t0) in Q.
    assert (T : tau * (L - mu) = 2 * step * r) by (unfold tau; field; lra).
    expand. rewrite ?(inner_sym Y M) in *.
    set (mm := inner M M) in *. set (my := inner M Y) in *. set (yy := inner Y Y) in *.
    assert (T1 : tau * L = tau * mu + 2 * step * r) by lra.
    assert (A1 : tau * ((L + mu) * my) = (2 * tau * mu + 2 * step * r) * my)
      by (rewrite Rmult_plus_distr_r, Rmult_plus_distr_l, <- !Rmult_assoc, T1; lra).
    assert (A2 : tau * (mu * L * yy) = mu * (tau * mu + 2 * step * r) * yy) by (rewrite <- T1;
      lra).
    unfold s, r in *. nra.
  Qed.

  Let s (j : nat) : R := sum j (fun i => size (a i)).
  Lemma size_pos u : 0 <= size u.
  Proof. apply mean_pos_; intros; apply inner_pos. Qed.
  Lemma tau_pos : 0 <= tau.
  Proof.
    unfold tau, Rdiv. pose proof r_between. apply Rmult_le_pos; [nra | left;
      apply Rinv_0_lt_compat; lra].
  Qed.
  Lemma q_small j : q j <= - / 2 * size (a j) + L ^ 2 * size (e j).
  Proof.
    unfold q, size. rewrite <- !mean_times, <- mean_plus. apply (mean_le N some); intros k _.
    pose proof (inner_pos (a j k - (L + mu)%R * e j k)%vec) as P. expand.
    rewrite (inner_sym (e j k) (a j k)) in P. pose proof (inner_pos (e j k)) as Q.
    assert (0 <= (L ^ 2 - mu ^ 2) * ||e j k||^2) by (apply Rmult_le_pos; nra). nra.
  Qed.
  Lemma drift j : size (e j) <= 2 * step ^ 2 * (INR j * s j + INR j ^ 2 * size d).
  Proof.
    unfold s, size. rewrite <- mean_sum, <- !mean_times, <- mean_plus, <- mean_times.
    apply (mean_le N some); intros k _. rewrite (same_square _ _ (e_is j k)), inner_scale,
      inner_scale_r.
    pose proof (square_of_sum j (fun i => a i k - d k)%vec) as Q.
    assert (W : sum j (fun i => ||a i k - d k||^2) <= 2 * (sum j (fun i => ||a i k||^2)
      + INR j * ||d k||^2)).
    { rewrite <- sum_const, <- sum_plus, <- sum_times. apply sum_le; intros i _.
      pose proof (inner_pos (a i k + d k)%vec) as P. expand.
      rewrite (inner_sym (d k) (a i k)) in *. lra. }
    apply (Rmult_le_compat_l (INR j)) in W; [|apply pos_INR].
    assert (S2 : 0 <= step ^ 2) by nra.
    assert (QW := Rle_trans _ _ _ Q W). apply (Rmult_le_compat_l _ _ _ S2) in QW. lra.
  Qed.
  Lemma s_grows i j : (i <= j)%nat -> s i <= s j.
  Proof. induction 1; [lra|]. unfold s in *; cbn [sum]. pose proof (size_pos (a m)). lra. Qed.
  Lemma all_drift : sum K (fun i => size (e i)) <=
    2 * step ^ 2 * (INR K ^ 2 / 2 * s K + INR K ^ 3 / 3 * size d).
  Proof.
    eapply Rle_trans; [apply sum_le; intros i Hi; apply drift|]. rewrite sum_times.
    apply Rmult_le_compat_l; [nra|]. rewrite sum_plus.
    apply Rplus_le_compat.
    - eapply Rle_trans; [|apply Rmult_le_compat_r; [|apply sum_of_indices]].
      + rewrite Rmult_comm, <- sum_times. apply sum_le; intros i Hi. rewrite (Rmult_comm (s K)).
        apply Rmult_le_compat_l; [apply pos_INR | apply s_grows; lia].
      + apply sum_pos; intros; apply size_pos.
    - rewrite (sum_ext K _ (fun i => size d * INR i ^ 2)) by (intros; lra).
    rewrite sum_times, Rmult_comm.
      apply Rmult_le_compat_r; [apply size_pos | apply sum_of_squares].
  Qed.
  Lemma along j : ||vmean N (y j) - xs||^2 <= (r ^ 2) ^ j * ||x - xs||^2
    + tau * (- / 2 * (r ^ 2) ^ j * s j + L ^ 2 * sum j (fun i => size (e i))).
  Proof.
    assert (R2 : 0 <= r ^ 2 <= 1) by (pose proof r_between; nra).
    induction j.
    - rewrite (same_square _ (x - xs)%vec).
      + unfold s; simpl; lra.
      + intros z. rewrite inner_sub, inner_vmean. unfold y; simpl. rewrite (mean_const N some).
      expand; lra.
    - pose proof (step_of_mean j) as S. pose proof (q_small j) as Q. pose proof tau_pos as T.
      apply (Rmult_le_compat_l _ _ _ T) in Q. apply (Rmult_le_compat_l (r ^ 2)) in IHj; [|lra].
      assert (S1 : s (Datatypes.S j) = s j + size (a j)) by reflexivity. rewrite S1. cbn [sum].
      set (w := (r ^ 2) ^ j) in *. change ((r ^ 2) ^ Datatypes.S j) with (r ^ 2 * w).
      assert (W : 0 <= w <= 1) by (unfold w; split; [apply pow_le; lra | rewrite <- (pow1 j);
        apply pow_incr; lra]).
      set (D := sum j (fun i => size (e i))) in *.
      assert (D0 : 0 <= D) by (apply sum_pos; intros; apply size_pos).
      assert (W1 : r ^ 2 * w <= 1 * 1) by (apply Rmult_le_compat; lra).
      assert (A : 0 <= tau * ((1 - r ^ 2 * w) * size (a j)))
        by (apply Rmult_le_pos; [exact T | apply Rmult_le_pos; [lra | apply size_pos]]).
      assert (B : 0 <= tau * ((1 - r ^ 2) * (L ^ 2 * D))).
      { apply Rmult_le_pos; [exact T | apply Rmult_le_pos; [lra | apply Rmult_le_pos;
        [|exact D0]]].
        apply pow_le; lra. }
      clearbody w D. lra.
  Qed.

  (** The new control variates. *)
  Let new (k : nat) : E := (c k - vmean N c + / (INR K * step) * (x - y K k))%vec.
  Lemma y_is j k : alike (y j k) (x - step * vsum j (fun i => G i k - d k))%vec.
  Proof.
    induction j; intros z; [unfold y; simpl; expand; lra|].
    rewrite (next_y j k z), inner_sub, (IHj z). cbn [vsum]. expand. lra.
  Qed.
  Lemma vsum_minus n (u : nat -> E) v z :
    inner (vsum n (fun i => u i - v)%vec) z = inner (vsum n u) z - INR n * inner v z.
  Proof.
    rewrite !inner_vsum, <- sum_const. rewrite <- (Rmult_1_l (sum n (fun _ => inner v z))).
    replace (1 * sum n (fun _ => inner v z)) with (- (sum n (fun _ => -1 * inner v z)))
      by (rewrite sum_times; lra).
    unfold Rminus. rewrite Ropp_involutive, <- sum_plus. apply sum_ext; intros; expand; lra.
  Qed.
  Lemma new_is k : alike (new k) (g k xs + / INR K * vsum K (fun i => G i k))%vec.
  Proof.
    intros z. assert (0 < INR K) by (apply lt_0_INR; lia).
    pose proof (y_is K k z) as Y. rewrite inner_sub, inner_scale, vsum_minus in Y. unfold d in Y.
    unfold new. expand. rewrite Y. field. split; lra.
  Qed.
  Lemma new_mean : alike (vmean N new) (/ INR K * vsum K (fun i => vmean N (G i)))%vec.
  Proof.
    intros z. rewrite inner_vmean, (mean_ext N _ (fun k => inner (g k xs) z
      + / INR K * sum K (fun i => inner (G i k) z))).
    - rewrite mean_plus, mean_times, (mean_sum (n := K) (fun i k => inner (G i k) z)).
      rewrite <- (inner_vmean N (fun k => g k xs)), (flat_at_xs N mu L f g xs mu_below of_losses),
        inner_zero.
      rewrite inner_scale, inner_vsum, (sum_ext K (fun i => inner (vmean N (G i)) z) (fun i =>
        mean N (fun k => inner (G i k) z))); [lra|].
      intros; apply inner_vmean.
    - intros k _. rewrite (new_is k z), inner_add, inner_scale, inner_vsum. reflexivity.
  Qed.
  Lemma new_small : size (fun k => new k - vmean N new - g k xs)%vec <= / INR K * s K.
  Proof.
    assert (K0 : 0 < INR K) by (apply lt_0_INR; lia). assert (0 < / INR K)
      by (apply Rinv_0_lt_compat; lra).
    unfold s, size. rewrite <- mean_sum, <- mean_times. apply (mean_le N some); intros k _.
    rewrite (same_square _ (/ INR K * vsum K (fun i => a i k))%vec).
    - rewrite inner_scale, inner_scale_r. pose proof (square_of_sum K (fun i => a i k)) as Q.
      apply (Rmult_le_compat_l (/ INR K * / INR K)) in Q; [|nra].
      eapply Rle_trans; [|eapply Rle_trans; [exact Q|]]; right; [lra | field; lra].
    - intros z. rewrite !inner_sub, (new_is k z), (new_mean z), inner_add, !inner_scale,
      !inner_vsum.
      rewrite (sum_ext K (fun i => inner (a i k) z) (fun i => inner (G i k) z
        + -1 * inner (vmean N (G i)) z))
        by (intros; unfold a; expand; lra).
      rewrite sum_plus, sum_times. lra.
  Qed.

  (** A round of a cohort, on convex losses. *)
  Section Cohort.
  Context (P : nat) (C : cohorts N P).
  Hypothesis some_part : (1 <= P)%nat.
  Hypothesis not_more : (P <= N)%nat.
  Let h := INR K * step.
  Let sigma := sampling_spread N P.
  Let kept := 2 * sigma * h ^ 2 + 2 / 3 * L * h ^ 3.
  Let m2 (j : nat) : R := ||vmean N (G j)||^2.
  Let Mn : R := sum K m2.
  Let D : R := objective N f x - objective N f xs.
  Let b (j k : nat) : E := (y j k - x)%vec.

  Lemma mean_of_y j : alike (vmean N (y j)) (x - step * vsum j (fun i => vmean N (G i)))%vec.
  Proof.
    induction j; intros z.
    - rewrite inner_vmean. unfold y; simpl. rewrite (mean_const N some). expand; lra.
    - rewrite (next_mean j z), inner_sub, (IHj z). cbn [vsum]. expand. lra.
  Qed.
  Lemma spread_of_y j : size (b j) = step ^ 2 * ||vsum j (fun i => vmean N (G i))||^2 + size (e j).
  Proof.
    unfold size. rewrite (mean_split N some (b j) (b j)).
    assert (B : alike (vmean N (b j)) (vmean N (y j) - x)%vec).
    { intros z. rewrite inner_vmean. unfold b.
      rewrite (mean_ext N _ (fun k => inner (y j k) z - inner x z)) by (intros; apply inner_sub).
      rewrite mean_minus, (mean_const N some), <- inner_vmean. expand. lra. }
    f_equal.
    - rewrite (same_square _ (- step * vsum j (fun i => vmean N (G i)))%vec).
      + rewrite inner_scale, inner_scale_r. lra.
      + intros z. rewrite (B z), inner_sub, (mean_of_y j z). expand. lra.
    - apply mean_ext; intros k _. apply same_square. intros z. rewrite inner_sub, (B z).
    unfold b, e. expand. lra.
  Qed.
  Lemma losses_say j :
    D + / (2 * L) * (m2 j + size (a j)) - L / 2 * size (b j) <= << vmean N (G j), x - xs >>.
  Proof.
    pose proof (losses_at N mu L f g xs mu_below of_losses (y j) x) as Q.
    pose proof (mean_split N some (G j) (G j)) as A.
    change (mean N (fun k => ||g k (y j k) - g k xs||^2)) with (mean N (fun k => <<G j k,
      G j k>>)) in Q.
    rewrite A in Q. exact Q.
  Qed.
  Lemma all_spread : sum K (fun j => size (b j)) <= step ^ 2 * (5 / 12 * INR K ^ 2) * Mn
    + 2 * step ^ 2 * (INR K ^ 2 / 2 * s K + INR K ^ 3 / 3 * size d).
  Proof.
    rewrite (sum_ext K _ (fun j => step ^ 2 * ||vsum j (fun i => vmean N (G i))||^2 + size (e j)))
      by (intros; apply spread_of_y).
    rewrite sum_plus, sum_times. apply Rplus_le_compat; [|apply all_drift].
    rewrite Rmult_assoc. apply Rmult_le_compat_l; [nra | apply sums_small].
  Qed.
  Lemma new_size : size (fun k => new k - g k xs)%vec <= / INR K * (Mn + s K).
  Proof.
    assert (K0 : 0 < INR K) by (apply lt_0_INR; lia). assert (0 < / INR K)
      by (apply Rinv_0_lt_compat; lra).
    assert (A : Mn + s K = mean N (fun k => sum K (fun j => ||G j k||^2))).
    { rewrite (mean_sum (n := K) (fun j k => ||G j k||^2)). unfold Mn, s. rewrite <- sum_plus.
    apply sum_ext; intros j _.
      symmetry. exact (mean_split N some (G j) (G j)). }
    rewrite A. unfold size. rewrite <- mean_times. apply (mean_le N some); intros k _.
    rewrite (same_square _ (/ INR K * vsum K (fun i => G i k))%vec)
      by (intros z; rewrite inner_sub, (new_is k z); expand; lra).
    rewrite inner_scale, inner_scale_r. pose proof (square_of_sum K (fun i => G i k)) as Q.
    apply (Rmult_le_compat_l (/ INR K * / INR K)) in Q; [|nra].
    eapply Rle_trans; [|eapply Rle_trans; [exact Q|]]; right; [lra | field; lra].
  Qed.
  Lemma old_size : size d <= size (fun k => c k - g k xs)%vec.
  Proof.
    unfold size. rewrite (mean_split N some (fun k => c k - g k xs)%vec (fun k => c k - g k
      xs)%vec).
    rewrite (mean_ext N (fun k => ||d k||^2) (fun k => ||(c k - g k xs) - vmean N (fun k => c k -
      g k xs)%vec||^2)).
    - pose proof (inner_pos (vmean N (fun k => c k - g k xs)%vec)). lra.
    - intros k _. apply same_square. intros z. unfold d.
      assert (B : inner (vmean N (fun k => c k - g k xs)%vec) z = inner (vmean N c) z).
      { rewrite inner_vmean, (mean_ext N _ (fun k => inner (c k) z - inner (g k xs) z))
          by (intros; apply inner_sub).
        rewrite mean_minus, <- !inner_vmean, (flat_at_xs N mu L f g xs mu_below of_losses),
          inner_zero. lra. }
      rewrite !inner_sub, B. lra.
  Qed.
  Lemma cohort_round : h * L * (1 + 2 * sigma) <= 3 / 5 ->
    let V (x : E) (c : nat -> E) := ||x - xs||^2
      + INR N / INR P * kept * mean N (fun k => ||c k - g k xs||^2) in
    expected C (fun who => V (cohort_mean N P who (y K)) (fun k => if who k then new k else c k))
    <= V x c - 2 * h * D.
  Proof.
    intros Sm V. unfold V.
    assert (NP : 0 < INR N /\ 0 < INR P) by (split; apply lt_0_INR; lia).
    rewrite expected_plus, expected_times.
    rewrite (expected_ext C (fun who => mean N (fun k => ||(if who k then new k else c k) - g k
      xs||^2))
      (fun who => mean N (fun k => if who k then ||new k - g k xs||^2 else ||c k - g k xs||^2)))
      by (intros; apply mean_ext; intros; destruct (who k); reflexivity).
    rewrite expected_changed, (sampling_from C some_part some) by assumption. fold sigma.
    change (mean N (fun k => ||y K k - vmean N (y K)||^2)) with (size (e K)).
    change (mean N (fun k => ||new k - g k xs||^2)) with (size (fun k => new k - g k xs)%vec).
    change (mean N (fun k => ||c k - g k xs||^2)) with (size (fun k => c k - g k xs)%vec).
    pose proof new_size as Ns. pose proof old_size as Os. pose proof all_spread as Sp.
    pose proof (drift K) as Dr.
    assert (Mk : ||vsum K (fun i => vmean N (G i))||^2 <= INR K * Mn) by apply square_of_sum.
    set (W := vsum K (fun i => vmean N (G i))) in *.
    assert (Dist : ||vmean N (y K) - xs||^2 = ||x - xs||^2 - 2 * step * << W, x - xs >>
      + step ^ 2 * ||W||^2).
    { rewrite (same_square _ ((x - xs) - step * W)%vec)
        by (intros z; rewrite inner_sub, (mean_of_y K z); fold W; expand; lra).
      expand. rewrite ?(inner_sym x W), ?(inner_sym xs W). lra. }
    rewrite Dist. clear Dist.
    assert (Lo : INR K * D + / (2 * L) * (Mn + s K) - L / 2 * sum K (fun j => size (b j)) <= << W,
      x - xs >>).
    { unfold W. rewrite inner_vsum. unfold Mn, s. rewrite <- sum_plus, <- !sum_times, <- sum_const.
      replace (sum K (fun _ => D)) with (sum K (fun _ => D)) by reflexivity.
      rewrite <- sum_plus. unfold Rminus at 1.
      replace (- sum K (fun k => L / 2 * size (b k)))
        with (sum K (fun k => -1 * (L / 2 * size (b k)))) by (rewrite sum_times; lra).
      rewrite <- sum_plus. apply sum_le; intros j _. pose proof (losses_say j). lra. }
    assert (K0 : 1 <= INR K) by (apply (le_INR 1); exact some_steps). assert (L0 : 0 < L) by lra.
    assert (Hs : 0 <= sigma <= 1) by (pose proof (spread_is N P some_part not_more); unfold sigma;
      lra).
    assert (h0 : 0 < h) by (apply Rmult_lt_0_compat; lra). set (H := h * L) in *.
    assert (H0 : 0 < H) by (apply Rmult_lt_0_compat; lra).
    set (S0 := s K) in *. set (dd := size d) in *.
    set (nn := size (fun k => new k - g k xs)%vec) in *.
    set (cc := size (fun k => c k - g k xs)%vec) in *. set (ww := ||W||^2) in *.
    set (bb := sum K (fun j => size (b j))) in *.
    set (ee := size (e K)) in *. set (wx := << W, x - xs >>) in *. set (xx := ||x - xs||^2).
    assert (S1 : 0 <= S0) by (apply sum_pos; intros; apply size_pos). assert (M1 : 0 <= Mn)
      by (apply sum_pos; intros; apply inner_pos).
    assert (d1 : 0 <= dd) by apply size_pos.
    assert (Kp : 0 <= kept) by (unfold kept; assert (0 <= sigma * h ^ 2)
      by (apply Rmult_le_pos; [lra | apply pow2_ge_0]);
      assert (0 <= L * h ^ 3) by (apply Rmult_le_pos; [lra | apply pow_le; lra]); lra).
    replace (INR N / INR P * kept * (cc + INR P / INR N * (nn - cc)))
      with (INR N / INR P * kept * cc + kept * (nn - cc)) by (field; lra).
    apply (Rmult_le_compat_l kept) in Ns, Os; try exact Kp.
    apply (Rmult_le_compat_l (2 * step)) in Lo; [|lra]. apply (Rmult_le_compat_l sigma) in Dr;
      [|lra].
    apply (Rmult_le_compat_l (step ^ 2)) in Mk; [|apply pow2_ge_0].
    apply (Rmult_le_compat_l (step * L)) in Sp; [|apply Rmult_le_pos; lra].
    assert (p0 : 0 <= sigma * H) by (apply Rmult_le_pos; lra).
    assert (p1 : sigma * H <= 1 * H) by (apply Rmult_le_compat_r; lra).
    assert (p2 : (sigma * H) ^ 2 <= (1 / 5) ^ 2) by (apply pow_incr; lra).
    assert (p3 : H ^ 2 <= (3 / 5 - 2 * (sigma * H)) ^ 2) by (apply pow_incr; lra).
    assert (p4 : H ^ 2 <= (3 / 5) ^ 2) by (apply pow_incr; lra).
    assert (C1 : 0 <= step / L * ((1 - 5 / 3 * H ^ 2 - 4 * sigma * H) * S0)).
    { apply Rmult_le_pos; [apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra]|].
      apply Rmult_le_pos; [lra | exact S1]. }
    assert (C2 : 0 <= step / L * ((1 - 13 / 12 * H ^ 2 - H * (1 + 2 * sigma)) * Mn)).
    { apply Rmult_le_pos; [apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra]|].
      apply Rmult_le_pos; [lra | exact M1]. }
    assert (E1 : kept * (/ INR K * (Mn + S0)) = step / L * ((2 * sigma * H + 2 / 3 * H ^ 2) * (Mn
      + S0)))
      by (unfold kept, H, h; field; lra).
    assert (E2 : step * L * (step ^ 2 * (5 / 12 * INR K ^ 2) * Mn + 2 * step ^ 2 * (INR K ^ 2 / 2 * S0
      + INR K ^ 3 / 3 * dd))
      = step / L * (5 / 12 * H ^ 2 * Mn + H ^ 2 * S0) + 2 / 3 * L * h ^ 3 * dd) by (unfold H, h; field;
        lra).
    assert (E3 : sigma * (2 * step ^ 2 * (INR K * S0
      + INR K ^ 2 * dd)) = step / L * (2 * sigma * H * S0) + 2 * sigma * h ^ 2 * dd)
      by (unfold H, h; field; lra).
    assert (E4 : step ^ 2 * (INR K * Mn) = step / L * (H * Mn)) by (unfold H, h; field; lra).
    assert (E5 : 2 * step * (INR K * D + / (2 * L) * (Mn + S0) - L / 2 * bb) = 2 * h * D
      + step / L * (Mn + S0) - step * L * bb)
      by (unfold h; field; lra).
    rewrite E1 in Ns. rewrite E2 in Sp. rewrite E3 in Dr. rewrite E4 in Mk. rewrite E5 in Lo.
    assert (Kd : kept * dd = 2 / 3 * L * h ^ 3 * dd + 2 * sigma * h ^ 2 * dd) by (unfold kept;
      lra).
    clearbody S0 dd nn cc ww bb ee wx xx Mn D. lra.
  Qed.
  End Cohort.

  Lemma round_falls : let V := scaffold_potential N (weight mu L step K) g xs in
    V (vmean N (y K), new) <= (r ^ 2) ^ K * V (x, c).
  Proof.
    cbv zeta. unfold scaffold_potential; cbn [fst snd].
    fold (size (fun k => new k - vmean N new - g k xs)%vec). fold (size d).
    change (mean N (fun k => ||c k - vmean N c - g k xs||^2)) with (size d).
    pose proof (along K) as A. pose proof all_drift as D. pose proof new_small as M.
    pose proof tau_pos as T.
    assert (K0 : 0 < INR K) by (apply lt_0_INR; lia). assert (K1 : 0 < / INR K)
      by (apply Rinv_0_lt_compat; lra).
    set (H := INR K * step * L) in *. set (rho := (r ^ 2) ^ K) in *.
    assert (H0 : 0 <= H) by (unfold H; assert (0 < INR K * step) by nra; nra).
    assert (H2 : H ^ 2 <= 9 / 100) by nra.
    assert (Rh : 49 / 100 <= rho).
    { assert (B : 7 / 10 <= r ^ K).
      { pose proof (bernoulli r (mu * step) K) as B. pose proof r_between.
      assert (0 <= mu * step) by nra.
        assert (INR K * (mu * step) <= H) by (unfold H; assert (0 <= INR K * step * (L - mu))
          by (apply Rmult_le_pos; nra); lra).
        assert (1 - INR K * (mu * step) <= r ^ K) by (apply B; unfold r in *; lra). lra. }
      unfold rho. rewrite <- pow_mult, Nat.mul_comm, pow_mult. simpl. nra. }
    assert (We : weight mu L step K = tau * (3 / 2 * INR K * H ^ 2)) by (unfold weight, tau, H;
      fold r; field; lra).
    rewrite We.
    set (X := ||x - xs||^2) in *. set (n := size _) in M |- *. set (sK := s K) in *.
    set (dd := size d) in *.
    assert (s0 : 0 <= sK) by (apply sum_pos; intros; apply size_pos).
    assert (d0 : 0 <= dd) by apply size_pos.
    assert (Hq : 0 <= H ^ 2) by apply pow2_ge_0.
    assert (W0 : 0 <= tau * (3 / 2 * INR K * H ^ 2))
      by (apply Rmult_le_pos; [exact T | apply Rmult_le_pos; [lra | exact Hq]]).
    apply (Rmult_le_compat_l _ _ _ W0) in M. apply (Rmult_le_compat_l (tau * L ^ 2)) in D;
      [|apply Rmult_le_pos; [exact T | apply pow2_ge_0]].
    assert (D' : tau * L ^ 2 * (2 * step ^ 2 * (INR K ^ 2 / 2 * sK + INR K ^ 3 / 3 * dd))
      = tau * (H ^ 2 * sK + 2 / 3 * INR K * H ^ 2 * dd)) by (unfold H; field).
    assert (M' : tau * (3 / 2 * INR K * H ^ 2) * (/ INR K * sK) = tau * (3 / 2 * H ^ 2 * sK))
      by (field; lra).
    rewrite D' in D. rewrite M' in M.
    assert (C1 : 0 <= tau * ((/ 2 * rho - 5 / 2 * H ^ 2) * sK))
      by (apply Rmult_le_pos; [exact T | apply Rmult_le_pos; [lra | exact s0]]).
    assert (C2 : 0 <= tau * ((rho * (3 / 2) - 2 / 3) * (INR K * H ^ 2 * dd))).
    { apply Rmult_le_pos; [exact T|]. apply Rmult_le_pos; [lra|].
      apply Rmult_le_pos; [apply Rmult_le_pos; lra | exact d0]. }
    set (SE := sum K (fun i => size (e i))) in *. lra.
  Qed.
End Scaffold.

(** * Theorems *)

(** A round of a cohort, for every K, N and P, from any state; and T rounds. *)
Theorem scaffold_round N P L step K : (1 <= P)%nat -> (P <= N)%nat -> 0 < L -> 0 < step ->
  (1 <= K)%nat -> INR K * step * L * (1 + 2 * sampling_spread N P) <= 3 / 5 ->
  forall (E : space) (C : cohorts N P) f g (xs : E), losses N 0 L f g xs ->
  let V := cohort_potential N P L (INR K * step) g xs in
  forall s, expected C (fun who => V (scaffold_next N P step K g who s))
    <= V s - 2 * (INR K * step) * (objective N f (fst s) - objective N f xs).
Proof.
  intros HP HN HL Hs HK Sm E C f g xs Lo V [x c].
  apply (cohort_round N 0 L step K f g xs ltac:(lra) Hs HK Lo x c P C HP HN Sm).
Qed.
Theorem scaffold_rounds N P L step K : (1 <= P)%nat -> (P <= N)%nat -> 0 < L -> 0 < step ->
  (1 <= K)%nat -> INR K * step * L * (1 + 2 * sampling_spread N P) <= 3 / 5 ->
  forall (E : space) (C : cohorts N P) f g (xs : E), losses N 0 L f g xs -> forall T s,
  sum T (fun t => later C (scaffold_next N P step K g) t
    (fun s => 2 * (INR K * step) * (objective N f (fst s) - objective N f xs)) s)
  <= cohort_potential N P L (INR K * step) g xs s.
Proof.
  intros HP HN HL Hs HK Sm E C f g xs Lo. apply falls_every_round.
  - intros s. unfold cohort_potential. pose proof (inner_pos (fst s - xs)%vec).
    assert (0 < INR N /\ 0 < INR P /\ 0 < INR K) as (n0 & p0 & k0)
      by (repeat split; apply lt_0_INR; lia).
    pose proof (spread_is N P HP HN). assert (h0 : 0 < INR K * step) by nra.
    apply Rplus_le_le_0_compat; [assumption|].
    apply Rmult_le_pos; [|apply mean_pos_; intros; apply inner_pos].
    apply Rmult_le_pos; [apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra]|].
    apply Rplus_le_le_0_compat; (apply Rmult_le_pos; [lra | apply pow_le; lra]).
  - intros s. apply (scaffold_round N P L step K HP HN HL Hs HK Sm E C f g xs Lo s).
Qed.

(** The rate of everybody, for every T. *)
Theorem scaffold_rate (E : space) N mu L step K f g (xs x0 : E) :
  0 <= mu < L -> 0 < step -> (1 <= K)%nat -> INR K * step * L <= 3 / 10 -> losses N mu L f g xs ->
  forall T, ||fst (scaffold N step K g x0 T) - xs||^2 <= (((1 - mu * step) ^ 2) ^ K) ^ T *
    (||x0 - xs||^2 + weight mu L step K * mean N (fun k => ||g k xs||^2)).
Proof.
  intros Hm Hs HK Hh Lo T. pose proof (some_clients _ _ _ _ _ _ Lo) as some.
  set (V := scaffold_potential N (weight mu L step K) g xs).
  set (rho := ((1 - mu * step) ^ 2) ^ K).
  assert (r0 : 0 <= rho) by (unfold rho; apply pow_le, pow2_ge_0).
  assert (F : forall t, V (scaffold N step K g x0 t) <= rho ^ t * V (scaffold N step K g x0 0)).
  { induction t; [simpl; lra|]. cbn [scaffold]. destruct (scaffold N step K g x0 t) as [x c].
    eapply Rle_trans; [apply (round_falls N mu L step K f g xs Hm Hs HK Hh Lo x c)|]. fold rho V.
    simpl (_ ^ _). rewrite Rmult_assoc. apply Rmult_le_compat_l; [exact r0 | exact IHt]. }
  assert (w0 : 0 <= weight mu L step K).
  { unfold weight. assert (0 < INR K) by (apply lt_0_INR; lia).
    pose proof (r_between mu L step K Hm Hs HK Hh). apply Rmult_le_pos; [|left;
      apply Rinv_0_lt_compat; lra].
    apply Rmult_le_pos; [|nra]. apply Rmult_le_pos; [lra | apply pow_le; nra]. }
  eapply Rle_trans; [|eapply Rle_trans; [apply (F T)|]].
  - unfold V, scaffold_potential. rewrite <- (Rplus_0_r (inner _ _)) at 1. apply Rplus_le_compat_l.
    apply Rmult_le_pos; [exact w0 | apply mean_pos_; intros; apply inner_pos].
  - right. f_equal. unfold V, scaffold_potential. cbn [scaffold fst snd]. f_equal. f_equal.
  apply mean_ext; intros k _.
    transitivity (||-(1) * g k xs||^2).
    + apply same_square. intros z. rewrite !inner_sub, inner_vmean, inner_scale.
      rewrite (mean_ext N _ (fun _ => 0)) by (intros; apply inner_zero).
      rewrite (mean_const N some), inner_zero. lra.
    + rewrite inner_scale, inner_scale_r. lra.
Qed.
Print Assumptions scaffold_rate.

(** The bound is attained, by equal parabolas: no smaller rate is true. *)
Theorem scaffold_rate_attained (E : space) N mu L step K (x0 : E) : (1 <= N)%nat -> (1 <= K)%nat ->
  0 <= mu <= L -> 0 < step -> let g (_ : nat) (x : E) := (mu * x)%vec in
  losses N mu L (fun _ x => mu / 2 * ||x||^2) g zero /\
  forall T, ||fst (scaffold N step K g x0 T) - zero||^2 = (((1 - mu * step) ^ 2) ^ K) ^ T *
    (||x0 - zero||^2 + weight mu L step K * mean N (fun k => ||g k zero||^2)).
Proof.
  intros some HK Hm Hs g. split.
  - constructor; [exact some | |].
    + intros k _; split; intros x y; unfold g; pose proof (inner_pos (y - x)%vec) as P; expand;
        rewrite ?(inner_sym y x) in *; nra.
    + intros z. unfold objective. apply (mean_le N some); intros k _. rewrite inner_zero.
      pose proof (inner_pos z). nra.
  - set (r := 1 - mu * step). assert (M : forall u : E, alike (vmean N (fun _ => u)) u)
      by (intros u z; rewrite inner_vmean; apply (mean_const N some)).
    (* the variates are those of a client of the model before, all equal *)
    assert (I : forall T, exists c : E, (forall k, snd (scaffold N step K g x0 T) k = c) /\
      alike (fst (scaffold N step K g x0 T)) ((r ^ K) ^ T * x0)%vec).
    { induction T.
      - exists zero. split; [reflexivity|]. intros z; simpl. rewrite inner_scale; lra.
      - destruct IHT as [c [C X]]. cbn [scaffold]. destruct (scaffold N step K g x0 T) as [x v].
        cbn [fst snd] in *. assert (v = fun _ => c) as ->.
        { apply FunctionalExtensionality.functional_extensionality; exact C. }
        assert (Y : forall j k, steered N step g (fun _ => c) k x j = steered N step g (fun _ =>
          c) 0 x j)
          by (induction j; intros k; simpl; [reflexivity | rewrite IHj; reflexivity]).
        assert (D : forall j, alike (steered N step g (fun _ => c) 0 x j) (r ^ j * x)%vec).
        { induction j; intros z; [simpl; rewrite inner_scale; lra|]. cbn [steered].
          pose proof (IHj z) as J. set (u := steered N step g (fun _ => c) 0 x j) in *. unfold g.
          cbv zeta. simpl pow. expand. rewrite (M c z), J. unfold r. lra. }
        exists (c - vmean N (fun _ => c)
          + / (INR K * step) * (x - steered N step g (fun _ => c) 0 x K))%vec.
        split; [intros k; rewrite Y; reflexivity|]. intros z.
        rewrite inner_vmean, (mean_ext N _ (fun _ => r ^ K * inner x z))
          by (intros; rewrite Y, (D K z), inner_scale; reflexivity).
        rewrite (mean_const N some), (X z), !inner_scale. simpl. lra. }
    intros T. destruct (I T) as [c [_ X]].
    rewrite (mean_ext N _ (fun _ => 0)), (mean_const N some)
      by (intros; unfold g; rewrite inner_scale, inner_zero; lra).
    rewrite (same_square _ ((r ^ K) ^ T * x0)%vec) by (intros z;
      rewrite inner_sub, inner_zero, (X z); lra).
    rewrite (same_square (x0 - zero)%vec x0) by (intros z; rewrite inner_sub, inner_zero; lra).
    rewrite inner_scale, inner_scale_r.
    replace (((r ^ 2) ^ K) ^ T) with ((r ^ K) ^ T * (r ^ K) ^ T); [lra|].
    rewrite <- !pow_mult, <- pow_add. f_equal. lia.
Qed.
Print Assumptions scaffold_rate_attained.
Print Assumptions scaffold_round.
Print Assumptions scaffold_rounds.
