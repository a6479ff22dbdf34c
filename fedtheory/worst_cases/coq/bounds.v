(** A certificate that passes the check proves its bound, for L-smooth convex losses.

    [pt i k] is the point where client [k] is asked for the [i]-th time, 0 the optimum. *)
From Coq Require Export Reals QArith ZArith List.
From Coq Require Import Lra Lia.
From Fedtheory Require Export checker.
Import ListNotations.
Open Scope R_scope.

(** All weight on one point, and weights of several. *)
Definition only (c : certificate) (i : nat) : list Z := repeat 0%Z i ++ [Zpos (denominator c)].
Definition spread_over (models : list (nat * Z)) : list Z :=
  fold_right plus [] (map (fun m => repeat 0%Z (fst m) ++ [snd m]) models).
Definition is_average (c : certificate) (models : list (nat * Z)) : bool :=
  forallb (Z.leb 0) (map snd models) && Z.eqb (total (map snd models)) (Zpos (denominator c)).
Lemma lin_at i z u : lin (repeat 0%Z i ++ [z]) u = IZR z * u i.
Proof.
  revert u; induction i as [|i IH]; intros u; simpl; [lra | rewrite (IH (fun i => u (S i))); lra].
Qed.
Lemma lin_spread models u : lin (spread_over models) u =
  fold_right (fun m s => IZR (snd m) * u (fst m) + s) 0 models.
Proof.
  unfold spread_over; induction models as [|[i z] t IH]; simpl; [reflexivity|].
  rewrite lin_plus, lin_at, IH; reflexivity.
Qed.
(** Of numbers whose mean is at most [b] one is. *)
Lemma some_below (models : list (nat * Z)) (u : nat -> R) b :
  forallb (Z.leb 0) (map snd models) = true -> (0 < total (map snd models))%Z ->
  fold_right (fun m s => IZR (snd m) * u (fst m) + s) 0 models
    <= IZR (total (map snd models)) * b ->
  exists t, (t < length models)%nat /\ u (fst (nth t models (O, 0%Z))) <= b.
Proof.
  intros P. induction models as [|[i z] t IH]; simpl in *; intros T S; [lia|].
  apply andb_prop in P as [P1 P2]. apply Z.leb_le in P1.
  destruct (Rle_lt_dec (u i) b) as [h|h]; [exists O; split; [lia | exact h]|].
  assert (T0 : (0 <= total (map snd t))%Z).
  { clear -P2. induction t as [|m t IH]; simpl in *; [lia|].
    apply andb_prop in P2 as [P1 P2]. apply Z.leb_le in P1. specialize (IH P2). lia. }
  rewrite plus_IZR in S. pose proof (IZR_le _ _ P1) as Z0.
  destruct (Z.eq_dec (total (map snd t)) 0) as [e|n].
  - exfalso. rewrite e in S, T. assert (0 < IZR z) by (apply IZR_lt; lia).
    assert (F : 0 <= fold_right (fun m s => IZR (snd m) * u (fst m) + s) 0 t).
    { clear -P2 e. induction t as [|m t IH]; simpl in *; [lra|].
      apply andb_prop in P2 as [P1 P2]. apply Z.leb_le in P1.
      assert (Q : (0 <= total (map snd t))%Z).
      { clear -P2. induction t as [|m t IH]; simpl in *; [lia|].
        apply andb_prop in P2 as [P1 P2]. apply Z.leb_le in P1. specialize (IH P2). lia. }
      assert (snd m = 0%Z) by lia. rewrite H. specialize (IH P2 ltac:(lia)). lra. }
    nra.
  - destruct (IH P2 ltac:(lia)) as [s [h1 h2]]; [nra|].
    exists (Datatypes.S s). split; [lia | exact h2].
Qed.

(** With several clients both matrices are positive semidefinite, with one the means' is. *)
Definition passes (N : nat) (c : certificate) (goal : criterion) : Prop :=
  check true c goal = true \/ N = 1%nat /\ check_alone true c goal = true.
Lemma passes_alone N c goal : passes N c goal -> check_alone true c goal = true.
Proof. intros [C|[_ C]]; [apply andb_prop in C as [C _]|]; exact C. Qed.
Lemma check_curvature c goal : check_alone true c goal = true -> Q2R (curvature c) < 1.
Proof.
  intros C. destruct (check_parts _ _ _ C) as [_ H]. destruct (H eq_refl) as [H1 _]. clear H.
  rename H1 into H.
  apply IZR_lt in H. rewrite minus_IZR in H. unfold Q2R.
  assert (P : 0 < IZR (Zpos (Qden (curvature c)))) by (apply IZR_lt; reflexivity).
  apply Rmult_lt_reg_r with (IZR (Zpos (Qden (curvature c)))); [exact P|].
  rewrite Rmult_assoc, Rinv_l; lra.
Qed.

(** What the measured numbers say of models, which are points of the certificate. *)
Section Conclusions.
  Context {E : space} (c : certificate) (N : nat) (some : (1 <= N)%nat) (l radius : R).
  Hypothesis l_pos : 0 < l.
  Variables (f : nat -> E -> R) (xs x0 : E) (pt o : nat -> nat -> E).
  Hypothesis first_is : forall k, pt O k = xs.
  Let val (i k : nat) : R := / l * f k (pt i k).
  Let proved (goal : criterion) : Prop :=
    measured N l xs x0 pt o val c goal <= Q2R (bound c) * radius ^ 2.
  Let D := IZR (Zpos (denominator c)).
  Let D_pos : 0 < D. Proof. apply IZR_lt; reflexivity. Qed.
  Lemma gap_at i x b : (forall k, (k < N)%nat -> pt i k = x) ->
    mean N (val i) - mean N (val O) <= b * radius ^ 2 ->
    objective N f x - objective N f xs <= b * l * radius ^ 2.
  Proof.
    intros X H. unfold val in H. rewrite !mean_times in H.
    rewrite (mean_ext N (fun k => f k (pt i k)) (fun k => f k x)) in H
      by (intros; rewrite X by assumption; reflexivity).
    rewrite (mean_ext N (fun k => f k (pt 0%nat k)) (fun k => f k xs)) in H
      by (intros; rewrite first_is; reflexivity).
    unfold objective. apply (Rmult_le_compat_l l _ _ (Rlt_le _ _ l_pos)) in H.
    eapply Rle_trans; [|eapply Rle_trans; [exact H|]]; right; [field; lra | lra].
  Qed.
  Section Last.
    Variables (last : nat) (x : E).
    Hypothesis last_is : forall k, (k < N)%nat -> pt last k = x.
    Lemma gap_of : proved (Gap (only c last)) ->
      objective N f x - objective N f xs <= num (bound c) * l * radius ^ 2.
    Proof.
      intros C. rewrite num_is. apply (gap_at last x _ last_is).
      unfold proved, measured, only in C. rewrite lin_at in C. fold D in C.
      eapply Rle_trans; [right | exact C]. field. lra.
    Qed.
    Lemma distance_of : proved (Distance last) -> ||x - xs||^2 <= num (bound c) * radius ^ 2.
    Proof.
      intros C. unfold proved, measured in C. rewrite num_is.
      rewrite (mean_ext N _ (fun _ => ||x - xs||^2)), mean_const in C; [exact C | exact some |].
      intros k Hk; rewrite last_is by assumption; reflexivity.
    Qed.
    Lemma gradient_of (g : nat -> E) : (forall k, (k < N)%nat -> o last k = g k) ->
      proved (Gradient last) -> ||vmean N g||^2 <= num (bound c) * l ^ 2 * radius ^ 2.
    Proof.
      intros G C. unfold proved, measured in C. rewrite num_is.
      assert (W : forall w, inner (vmean N (own l o last)) w = / l * inner (vmean N g) w).
      { intros w; rewrite !inner_vmean, <- mean_times; apply mean_ext; intros k Hk.
        unfold own; rewrite G, inner_scale by assumption; reflexivity. }
      rewrite W, inner_sym, W in C. set (v := inner _ _) in C |- *.
      assert (0 <= l ^ 2) by (simpl; nra). apply (Rmult_le_compat_l (l ^ 2) _ _ H) in C.
      eapply Rle_trans; [|eapply Rle_trans; [exact C|]]; right; [field; lra | lra].
    Qed.
  End Last.
  (** The best of several models: of each its point and its weight. *)
  Lemma best_gap_of (models : list (nat * Z)) (x : nat -> E) :
    (forall t k, (t < length models)%nat -> (k < N)%nat ->
      pt (fst (nth t models (O, 0%Z))) k = x t) ->
    is_average c models = true -> proved (Gap (spread_over models)) ->
    exists t, (t < length models)%nat /\
      objective N f (x t) - objective N f xs <= num (bound c) * l * radius ^ 2.
  Proof.
    intros X A C. unfold proved, measured in C. rewrite lin_spread in C. fold D in C.
    apply andb_prop in A as [A1 A2]. apply Z.eqb_eq in A2.
    destruct (some_below models (fun i => mean N (val i) - mean N (val O))
      (Q2R (bound c) * radius ^ 2) A1) as [t [T H]].
    - rewrite A2; reflexivity.
    - rewrite A2. fold D. apply (Rmult_le_compat_l D _ _ (Rlt_le _ _ D_pos)) in C.
      eapply Rle_trans; [|exact C]. right. field. lra.
    - exists t; split; [exact T|]. rewrite num_is.
      apply (gap_at (fst (nth t models (O, 0%Z)))); [|exact H]. intros; apply X; assumption.
  Qed.
End Conclusions.

Section Core.
  Context {E : space} (c : certificate) (N : nat) (mu L radius zeta : R).
  Variables (f : nat -> E -> R) (g : nat -> E -> E) (xs x0 : E) (pt : nat -> nat -> E).
  Hypothesis L_pos : 0 < L.
  Hypothesis S : setting N mu L radius zeta f g xs x0.
  Hypothesis mu_is : mu = num (curvature c) * L.
  Hypothesis zeta_is : heterogeneity c = 0%Z \/ zeta = num (spread c) * L * radius.
  Hypothesis first_is : forall k, pt O k = xs.
  (** Gradients at the points, and any other vectors of each client beyond. *)
  Variable o : nat -> nat -> E.
  Hypothesis o_is : forall i k, (i < length (places c))%nat -> o i k = g k (pt i k).
  Hypothesis here : all_placed N L xs x0 pt o (fun q => q / L) 0 (places c).
  Let val (i k : nat) : R := / L * f k (pt i k).
  Definition known_to_be_positive (goal : criterion) : Prop := match goal with
    | Form _ P | Sum _ _ P => forall x, In x P -> 0 <= mean N (fun k =>
        inner (den N L xs x0 pt o (fst (snd x)) k) (den N L xs x0 pt o (snd (snd x)) k))
    | _ => True
    end.
  Lemma passed goal : known_to_be_positive goal -> passes N c goal ->
    measured N L xs x0 pt o val c goal <= Q2R (bound c) * radius ^ 2.
  Proof.
    intros KP PC. pose proof (passes_alone N c goal PC) as C. pose proof (some_client S) as some.
    pose proof (check_curvature c goal C) as m1.
    rewrite num_is in mu_is, zeta_is. pose proof (Rinv_0_lt_compat L L_pos) as Hi.
    assert (I : / L * L = 1) by (field; lra).
    destruct (check_parts _ _ _ C) as [n_pos parts].
    apply (checked_either N some L L_pos xs x0 pt o (fun q => q / L) val (radius ^ 2)
      (fun _ => eq_refl) true c goal).
    - intros w. unfold own.
      rewrite (mean_ext N _ (fun k => / L * inner (g k xs) w))
        by (intros; rewrite o_is, first_is, inner_scale by exact n_pos; reflexivity).
      rewrite mean_times, <- inner_vmean, (stationary N mu L radius zeta f g xs x0 L_pos S); lra.
    - exact here.
    - simpl; nra.
    - exact (start_near S).
    - destruct zeta_is as [h|h]; [left; exact h | right]. pose proof (heterogeneous S) as H.
      rewrite (mean_ext N _ (fun k => / L * / L * inner (g k xs) (g k xs)))
        by (intros; unfold own; rewrite o_is, first_is, inner_scale, inner_scale_r by exact n_pos;
          lra).
      rewrite mean_times. apply (Rmult_le_compat_l (/ L * / L)) in H; [|nra].
      eapply Rle_trans; [exact H | right]. rewrite h. field. lra.
    - intros i _. left. apply parts. reflexivity.
    - intros i j k Hi' Hj' Hk. set (m := Q2R (curvature c)) in *.
      destruct (in_class S k Hk) as [below above].
      assert (K : smooth_convex m 1 (fun y => / L * f k y) (fun y => scale (/ L) (g k y))).
      { split; intros x y; [specialize (below x y) | specialize (above x y)].
        - apply (Rmult_le_compat_l (/ L) _ _ (Rlt_le _ _ Hi)) in below.
          rewrite inner_scale. rewrite mu_is in below.
          replace (m / 2 * ||y - x||^2) with (/ L * (m * L / 2 * ||y - x||^2)) by (field; lra). lra.
        - apply (Rmult_le_compat_l (/ L) _ _ (Rlt_le _ _ Hi)) in above.
          rewrite inner_scale.
          replace (1 / 2 * ||y - x||^2) with (/ L * (L / 2 * ||y - x||^2)) by (field; lra). lra. }
      pose proof (interpolation m 1 (/ (2 * (1 - m))) _ _ m1 ltac:(field; lra) K
        (pt j k) (pt i k)) as J.
      cbv beta in J. rewrite <- (o_is j k Hj'), <- (o_is i k Hi') in J.
      fold (own L o j k) (own L o i k) in J.
      unfold val. set (s := / (2 * (1 - m))) in *.
      assert (W : forall w, inner (sub (sub (pt i k) xs) (sub (pt j k) xs)) w =
        inner (sub (pt i k) (pt j k)) w)
        by (intros; rewrite !inner_sub; lra).
      rewrite (W (sub (sub (pt i k) xs) (sub (pt j k) xs))).
      rewrite (inner_sym (own L o j k)), (inner_sym (sub (own L o i k) (own L o j k))
        (sub (sub _ _) _)), !W.
      rewrite (inner_sym (sub (pt i k) (pt j k)) (sub (sub _ _) _)), W.
      rewrite (inner_sym (sub (pt i k) (pt j k)) (own L o j k)),
        (inner_sym (sub (pt i k) (pt j k)) (sub (own L o i k) (own L o j k))). lra.
    - exact KP.
    - exact PC.
  Qed.
  Lemma smooth_checked goal : known_to_be_positive goal -> check true c goal = true ->
    measured N L xs x0 pt o val c goal <= Q2R (bound c) * radius ^ 2.
  Proof. intros K C; apply passed; [exact K | left; exact C]. Qed.
  (** A gap by products that are known to be at least 0. *)
  Theorem known_gap_bound last (x : E) (known : products) :
    (forall k, (k < N)%nat -> pt last k = x) -> known_to_be_positive (Sum (only c last) [] known) ->
    check true c (Sum (only c last) [] known) = true ->
    objective N f x - objective N f xs <= num (bound c) * L * radius ^ 2.
  Proof.
    intros X K C. apply (gap_of c N L radius L_pos f xs x0 pt o first_is last x X).
    pose proof (smooth_checked _ K C) as M. unfold measured in *. unfold summed in M; simpl in M.
    rewrite Rplus_0_r in M. exact M.
  Qed.
End Core.

Section Smooth.
  Context {E : space} (c : certificate) (N : nat) (mu L radius zeta : R).
  Variables (f : nat -> E -> R) (g : nat -> E -> E) (xs x0 : E) (pt : nat -> nat -> E).
  Hypothesis L_pos : 0 < L.
  Hypothesis S : setting N mu L radius zeta f g xs x0.
  Hypothesis mu_is : mu = num (curvature c) * L.
  Hypothesis zeta_is : heterogeneity c = 0%Z \/ zeta = num (spread c) * L * radius.
  Hypothesis first_is : forall k, pt O k = xs.
  Let o (i k : nat) : E := g k (pt i k).
  Hypothesis here : all_placed N L xs x0 pt o (fun q => q / L) 0 (places c).
  Let passed := passed c N mu L radius zeta f g xs x0 pt L_pos S mu_is zeta_is
    first_is o (fun _ _ _ => eq_refl) here.
  Section Last.
    Variables (last : nat) (x : E).
    Hypothesis last_is : forall k, (k < N)%nat -> pt last k = x.
    Theorem gap_bound : passes N c (Gap (only c last)) ->
      objective N f x - objective N f xs <= num (bound c) * L * radius ^ 2.
    Proof.
      intros C. apply (gap_of c N L radius L_pos f xs x0 pt o first_is last x last_is).
      apply (passed (Gap _) I C).
    Qed.
    Theorem distance_bound : passes N c (Distance last) ->
      ||x - xs||^2 <= num (bound c) * radius ^ 2.
    Proof.
      intros C. apply (distance_of c N (some_client S) L radius f xs x0 pt o last x last_is).
      apply (passed (Distance _) I C).
    Qed.
    Theorem gradient_bound : passes N c (Gradient last) ->
      ||vmean N (fun k => g k x)||^2 <= num (bound c) * L ^ 2 * radius ^ 2.
    Proof.
      intros C. apply (gradient_of c N L radius L_pos f xs x0 pt o last).
      - intros k Hk; unfold o; rewrite last_is by exact Hk; reflexivity.
      - apply (passed (Gradient _) I C).
    Qed.
  End Last.
  Theorem best_gap_bound (models : list (nat * Z)) (x : nat -> E) :
    (forall t k, (t < length models)%nat -> (k < N)%nat ->
      pt (fst (nth t models (O, 0%Z))) k = x t) ->
    is_average c models = true -> passes N c (Gap (spread_over models)) ->
    exists t, (t < length models)%nat /\
      objective N f (x t) - objective N f xs <= num (bound c) * L * radius ^ 2.
  Proof.
    intros X A C. apply (best_gap_of c N L radius L_pos f xs x0 pt o first_is models x X A).
    apply (passed (Gap _) I C).
  Qed.
End Smooth.

(** The same for losses with subgradients of norm at most [G], in units of G / radius. [s i k] is a
    subgradient at [pt i k]. *)
Section Bounded.
  Context {E : space} (c : certificate) (N : nat) (G radius : R).
  Variables (f : nat -> E -> R) (s0 : nat -> E) (xs x0 : E) (pt s : nat -> nat -> E).
  Hypothesis G_pos : 0 < G.
  Hypothesis radius_pos : 0 < radius.
  Hypothesis S : bounded_setting N G radius f s0 xs x0.
  Hypothesis first_is : forall k, pt O k = xs.
  Hypothesis s0_is : forall k, (k < N)%nat -> s O k = s0 k.
  Hypothesis subgradients : forall i k, (i < length (places c))%nat -> (k < N)%nat ->
    subgradient (f k) (pt i k) (s i k).
  Hypothesis here : all_placed N (G / radius) xs x0 pt s (fun q => q * radius / G) 0 (places c).
  Let l := G / radius.
  Let l_pos : 0 < l. Proof. apply Rdiv_lt_0_compat; assumption. Qed.
  Let l_inv : / l = radius / G. Proof. unfold l; field; lra. Qed.
  Let val (i k : nat) : R := / l * f k (pt i k).
  Lemma bounded_checked goal : match goal with Form _ _ | Sum _ _ _ => False | _ => True end ->
    heterogeneity c = 0%Z -> check false c goal = true ->
    measured N l xs x0 pt s val c goal <= Q2R (bound c) * radius ^ 2.
  Proof.
    intros KP H0 C. pose proof (one_client S) as some.
    pose proof (Rinv_0_lt_compat l l_pos) as Hi.
    apply (checked N some l l_pos xs x0 pt s (fun q => q * radius / G) val (radius ^ 2)
      ltac:(intros q; unfold l; field; lra) false c goal).
    - intros w. rewrite (mean_ext N _ (fun k => / l * inner (s0 k) w))
        by (intros; unfold own; rewrite inner_scale, s0_is by assumption; reflexivity).
      rewrite mean_times, <- inner_vmean, (balanced S), inner_zero; lra.
    - exact here.
    - simpl; nra.
    - exact (begins_near S).
    - left; exact H0.
    - intros i Hi'. right.
      rewrite (mean_ext N _ (fun k => / l * / l * inner (s i k) (s i k)))
        by (intros; unfold own; rewrite inner_scale, inner_scale_r; lra).
      rewrite mean_times.
      pose proof (bounded S (pt i) (s i) (fun k Hk => subgradients i k Hi' Hk)) as B.
      apply (Rmult_le_compat_l (/ l * / l)) in B; [|nra].
      eapply Rle_trans; [exact B | right]. rewrite l_inv. field. lra.
    - intros i j k Hi' Hj Hk. cbv iota. pose proof (subgradients j k Hj Hk (pt i k)) as B.
      apply (Rmult_le_compat_l (/ l) _ _ (Rlt_le _ _ Hi)) in B.
      unfold val, own. rewrite inner_scale, (inner_sym (s j k)), !inner_sub.
      rewrite (inner_sym (s j k)), inner_sub in B. lra.
    - destruct goal; first [exact I | contradiction].
    - exact C.
  Qed.
  Let units b : b * l * radius ^ 2 = b * G * radius. Proof. unfold l; field; lra. Qed.
  Theorem bounded_gap_bound last (x : E) : (forall k, (k < N)%nat -> pt last k = x) ->
    heterogeneity c = 0%Z -> check false c (Gap (only c last)) = true ->
    objective N f x - objective N f xs <= num (bound c) * G * radius.
  Proof.
    intros X H C. rewrite <- units. apply (gap_of c N l radius l_pos f xs x0 pt s first_is last x
      X).
    apply (bounded_checked (Gap _) I H C).
  Qed.
  Theorem bounded_distance_bound last (x : E) : (forall k, (k < N)%nat -> pt last k = x) ->
    heterogeneity c = 0%Z -> check false c (Distance last) = true ->
    ||x - xs||^2 <= num (bound c) * radius ^ 2.
  Proof.
    intros X H C. apply (distance_of c N (one_client S) l radius f xs x0 pt s last x X).
    apply (bounded_checked (Distance _) I H C).
  Qed.
  Theorem bounded_best_gap_bound (models : list (nat * Z)) (x : nat -> E) :
    (forall t k, (t < length models)%nat -> (k < N)%nat ->
      pt (fst (nth t models (O, 0%Z))) k = x t) ->
    is_average c models = true -> heterogeneity c = 0%Z ->
    check false c (Gap (spread_over models)) = true ->
    exists t, (t < length models)%nat /\
      objective N f (x t) - objective N f xs <= num (bound c) * G * radius.
  Proof.
    intros X A H C.
    destruct (best_gap_of c N l radius l_pos f xs x0 pt s first_is models x X A (bounded_checked
      (Gap _) I H C))
      as [t [T B]]. exists t; split; [exact T | rewrite <- units; exact B].
  Qed.
End Bounded.

(** Proofs of what a theorem asks of its certificate: numbers, and the points' places. *)
Ltac numbers := unfold num; simpl; first [reflexivity | lra | field; lra
  | left; reflexivity | right; first [lra | field; lra] | apply Rgt_not_eq; nra].
Ltac models := let t := fresh in let k := fresh in let h := fresh in
  intros t k h _; repeat (destruct t as [|t]; [reflexivity|]); exfalso; cbn [length] in h; lia.
Ltac place := let k := fresh in let w := fresh in let h := fresh in
  intros k w h; apply (f_equal (fun z => inner z w));
  first [ reflexivity
        | match goal with
          | H : forall _, (_ < _)%nat -> _ |- _ => exact (H k h)
          | H : forall _ _, (_ < _)%nat -> _ |- _ => exact (H _ k h)
          | H : _ = _ |- _ => exact H
          | H : forall _, _ = _ |- _ => exact (H _)
          end ].
Ltac places := repeat (hnf; apply conj; [place|]); exact I.
