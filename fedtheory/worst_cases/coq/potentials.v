(** Potentials: a quadratic form of a method's state falls by a factor rho in every round, from any
    state, and with it the squared distance. The state is a model and a vector that every client
    keeps, which rests at its gradient at the optimum. *)
From Coq Require Import Reals QArith Qreals ZArith List Lra Lia.
From Fedtheory Require Export methods.
Import ListNotations.
Open Scope R_scope.

(** With g_k the gradient at the optimum: a ||x - xs||^2 + b <x - xs, h>/L + c ||h||^2/L^2 + d mean
    ||h_k - h - g_k||^2/L^2, h the mean of the h_k. *)
Definition potential {E : space} N (L a b c d : R) (g : nat -> E -> E)
    (xs x : E) (h : nat -> E) : R :=
  a * ||x - xs||^2 + b / L * <<x - xs, vmean N h>> + c / L ^ 2 * ||vmean N h||^2
  + d / L ^ 2 * mean N (fun k => ||h k - vmean N h - g k xs||^2).
(** The same of places [X] and [H]; [rho] times it before the round taken from it afterwards. *)
Definition potential_form (a b c d : Q) (X H : vec) : products :=
  let D := Minus (Minus H (Mean H)) (Own 0) in
  [(a, (X, X)); (b, (X, Mean H)); (c, (Mean H, Mean H)); (d, (D, D))].
Definition fall (rho a b c d : Q) (n : nat) (X H : vec) : criterion :=
  Form (potential_form a b c d X H ++
    map (fun p => (- (rho * fst p), snd p)%Q) (potential_form a b c d Start (Own n))) [].

Lemma setting_at {E : space} {N mu L r z f g} {xs x0 : E} (S : setting N mu L r z f g xs x0) x :
  setting N mu L (sqrt ||x - xs||^2) z f g xs x.
Proof.
  constructor; try apply S. rewrite pow2_sqrt; [lra | apply inner_pos].
Qed.

Section Round.
  Context {E : space} (data : certificate) (N : nat) (mu L r z : R).
  Variables (f : nat -> E -> R) (g : nat -> E -> E) (xs x x' : E) (h h' : nat -> E).
  Variables (pt : nat -> nat -> E) (rho a b c d : Q) (X H : vec).
  Hypothesis L_pos : 0 < L.
  Hypothesis S : setting N mu L r z f g xs x.
  Hypothesis mu_is : mu = num (curvature data) * L.
  Hypothesis first_is : forall k, pt O k = xs.
  Let n := length (places data).
  Definition with_memory (i k : nat) : E := if Nat.ltb i n then g k (pt i k) else h k.
  Let o := with_memory.
  Let told := tell N L xs x pt o (fun q => q / L).
  Hypothesis here : all_placed N L xs x pt o (fun q => q / L) 0 (places data).
  Hypothesis x_is : forall k, (k < N)%nat -> x' = told false X k.
  Hypothesis h_is : forall k, (k < N)%nat -> h' k = told true H k.
  Definition weights_fit : bool :=
    Qeq_bool (weight X) 1 && Qeq_bool (weight H) 0 && Z.eqb (heterogeneity data) 0
    && Qeq_bool (bound data) 0 && Nat.ltb 0 n.
  Lemma summed_app P Q :
    summed N L xs x pt o (P ++ Q) = summed N L xs x pt o P + summed N L xs x pt o Q.
  Proof. unfold summed; induction P as [|p P IH]; simpl; [lra | rewrite IH; lra]. Qed.
  Lemma summed_times (s : Q) P : summed N L xs x pt o (map (fun p => (- (s * fst p), snd p)%Q) P)
    = - (Q2R s * summed N L xs x pt o P).
  Proof.
    unfold summed; induction P as [|p P IH]; simpl; [lra | rewrite IH, Q2R_opp, Q2R_mult; lra].
  Qed.
  Lemma form_is (V W : vec) (y : E) (m : nat -> E) :
    (forall k w, (k < N)%nat -> inner (den N L xs x pt o V k) w = inner (y - xs)%vec w) ->
    (forall k w, (k < N)%nat -> inner (den N L xs x pt o W k) w = / L * inner (m k) w) ->
    (0 < n)%nat ->
    summed N L xs x pt o (potential_form a b c d V W) =
    potential N L (Q2R a) (Q2R b) (Q2R c) (Q2R d) g xs y m.
  Proof.
    intros A B n0. pose proof (some_client S) as some. unfold potential_form, summed, potential;
      simpl.
    assert (Bm : forall w, inner (vmean N (den N L xs x pt o W)) w = / L * inner (vmean N m) w).
    { intros w. rewrite !inner_vmean, <- mean_times. apply mean_ext; intros k Hk; apply B, Hk. }
    rewrite (mean_ext N _ (fun _ => inner (y - xs)%vec (y - xs)%vec))
      by (intros k Hk; rewrite (A k _ Hk), inner_sym, (A k _ Hk); reflexivity).
    rewrite (mean_ext N (fun k => inner (den N L xs x pt o V k) _)
      (fun _ => / L * inner (y - xs)%vec (vmean N m)))
      by (intros k Hk; rewrite (A k _ Hk), inner_sym, Bm, inner_sym; reflexivity).
    rewrite !(mean_const N some).
    assert (BB : inner (vmean N (den N L xs x pt o W)) (vmean N (den N L xs x pt o W)) =
      / L * / L * inner (vmean N m) (vmean N m)) by (rewrite Bm, (inner_sym (vmean N m)), Bm; lra).
    rewrite BB.
    rewrite (mean_ext N (fun k => inner (sub _ _) _) (fun k => / L * / L *
      inner (m k - vmean N m - g k xs)%vec (m k - vmean N m - g k xs)%vec)).
    - rewrite mean_times. unfold Rdiv. rewrite !Rinv_mult, Rinv_1, Rmult_1_r. lra.
    - intros k Hk.
      assert (W' : forall w, inner (den N L xs x pt o W k - vmean N (den N L xs x pt o W)
        - own L o 0 k)%vec w = / L * inner (m k - vmean N m - g k xs)%vec w).
      { intros w. rewrite !inner_sub, (B k w Hk), Bm. unfold own, o, with_memory.
        assert (Nat.ltb 0 n = true) as -> by (apply Nat.ltb_lt, n0). rewrite first_is, inner_scale.
        lra. }
      rewrite W', inner_sym, W'; lra.
  Qed.
  Theorem round_falls : weights_fit = true -> check true data (fall rho a b c d n X H) = true ->
    potential N L (Q2R a) (Q2R b) (Q2R c) (Q2R d) g xs x' h'
    <= Q2R rho * potential N L (Q2R a) (Q2R b) (Q2R c) (Q2R d) g xs x h.
  Proof.
    unfold weights_fit. intros F C. rewrite !andb_true_iff in F.
    destruct F as ((((F1 & F2) & F3) & F4) & F5).
    apply Z.eqb_eq in F3. apply Qeq_bool_eq, Qeq_eqR in F1, F2, F4. rewrite Q2R_1 in F1.
    rewrite Q2R_0 in F2, F4.
    apply Nat.ltb_lt in F5. pose proof (some_client S) as some.
    apply (smooth_checked data N mu L r z f g xs x pt L_pos S mu_is (or_introl F3) first_is o) in C;
      [ | intros i k Hi; unfold o, with_memory; apply Nat.ltb_lt in Hi; fold n in Hi; rewrite Hi;
        reflexivity
        | exact here | intros p [] ].
    rewrite F4, Rmult_0_l in C. unfold fall, measured in C. rewrite summed_app, summed_times in C.
    assert (I : / L * L = 1) by (field; lra).
    rewrite (form_is X H x' h') in C; [ | | | exact F5].
    - rewrite (form_is Start (Own n) x h) in C; [lra | | | exact F5].
      + reflexivity.
      + intros k w Hk. unfold den, own, o, with_memory. rewrite Nat.ltb_irrefl, inner_scale;
          reflexivity.
    - intros k w Hk. rewrite inner_sub, (x_is k Hk). unfold told.
      rewrite (checker.told N some L L_pos xs x pt o (fun q => q / L) (fun _ => eq_refl)), F1. lra.
    - intros k w Hk. rewrite (h_is k Hk). unfold told.
      rewrite (checker.told N some L L_pos xs x pt o (fun q => q / L) (fun _ => eq_refl)), F2.
      rewrite <- Rmult_assoc, I; lra.
  Qed.
End Round.

(** From one round to [T] rounds. *)
Definition positive_form (a b c d : Q) : bool :=
  Qle_bool 1 a && Qle_bool 0 c && Qle_bool 0 d && Qle_bool (b * b) (4 * (a - 1) * c).
Section Rate.
  Context {E : space} (N : nat) (some : (1 <= N)%nat) (L : R) (L_pos : 0 < L) (g :
    nat -> E -> E) (xs : E).
  Variables (rho a b c d : Q) (x : nat -> E) (h : nat -> nat -> E).
  Let V t := potential N L (Q2R a) (Q2R b) (Q2R c) (Q2R d) g xs (x t) (h t).
  Lemma distance_below t : positive_form a b c d = true -> ||x t - xs||^2 <= V t.
  Proof.
    unfold positive_form. rewrite !andb_true_iff. intros (((A & C) & D) & B).
    apply Qle_bool_imp_le, Qle_Rle in A, B, C, D.
    rewrite Q2R_1 in A. rewrite Q2R_0 in C, D. rewrite !Q2R_mult, Q2R_minus, Q2R_1 in B.
    replace (Q2R 4) with 4 in B by (unfold Q2R; simpl; lra). unfold V, potential.
    set (u := (x t - xs)%vec). set (v := vmean N (h t)). set (m := mean N _).
    assert (M : 0 <= Q2R d / L ^ 2 * m).
    { apply Rmult_le_pos; [|apply mean_pos; [exact some | intros; apply inner_pos]].
      apply Rmult_le_pos; [exact D | left; apply Rinv_0_lt_compat; apply pow_lt, L_pos]. }
    pose proof (inner_pos ((Q2R a - 1) * u + (Q2R b / (2 * L)) * v)%vec) as P.
    rewrite inner_add, !inner_add_r, !inner_scale, !inner_scale_r, (inner_sym v u) in P.
    pose proof (inner_pos v) as Pv. pose proof (inner_pos u) as Pu.
    assert (F : 0 <= (Q2R a - 1) * inner u u + Q2R b / L * inner u v + Q2R c / L ^ 2 * inner v v);
      [|lra].
    replace (Q2R b / L) with (2 * (Q2R b / (2 * L))) by (field; lra).
    replace (Q2R c / L ^ 2) with (Q2R c * (/ L * / L)) by (field; lra).
    set (s := Q2R b / (2 * L)) in *. set (l2 := / L * / L).
    assert (S2 : s * s <= (Q2R a - 1) * Q2R c * l2).
    { replace (s * s) with (Q2R b * Q2R b * l2 / 4) by (unfold s, l2; field; lra).
      assert (0 <= l2) by (unfold l2; pose proof (Rinv_0_lt_compat L L_pos); nra). nra. }
    destruct (Rle_lt_or_eq_dec 1 (Q2R a) A) as [p|e].
    - apply Rmult_le_reg_l with (Q2R a - 1); [lra|].
      assert (0 <= ((Q2R a - 1) * Q2R c * l2 - s * s) * inner v v) by (apply Rmult_le_pos; lra).
      lra.
    - rewrite <- e in *. assert (s = 0) by nra. rewrite H.
      assert (0 <= l2) by (unfold l2; pose proof (Rinv_0_lt_compat L L_pos); nra).
      assert (0 <= Q2R c * l2 * inner v v) by
        (apply Rmult_le_pos; [apply Rmult_le_pos; assumption | exact Pv]). lra.
  Qed.
  Hypothesis nothing : forall k, (k < N)%nat -> h O k = zero.
  Lemma at_start : V O = num a * ||x O - xs||^2 + num d / L ^ 2 * mean N (fun k => ||g k xs||^2).
  Proof.
    unfold V, potential. rewrite !num_is. assert (Z : forall w, inner (vmean N (h O)) w = 0).
    { intros w. rewrite inner_vmean, (mean_ext N _ (fun _ => 0)); [apply (mean_const N some)|].
      intros k Hk; rewrite (nothing k Hk); apply inner_zero. }
    rewrite Z, (inner_sym (x O - xs)%vec (vmean N (h O))), Z.
    rewrite (mean_ext N (fun k => inner (h O k - _ - g k xs)%vec _) (fun k => inner (g k xs)
      (g k xs))).
    - lra.
    - intros k Hk.
      assert (W : forall w, inner (h O k - vmean N (h O) - g k xs)%vec w = - inner (g k xs) w)
        by (intros; rewrite !inner_sub, Z, (nothing k Hk), inner_zero; lra).
      rewrite W, inner_sym, W; lra.
  Qed.
  Theorem rate : positive_form a b c d = true -> Qle_bool 0 rho = true ->
    (forall t, V (S t) <= Q2R rho * V t) -> forall T,
    ||x T - xs||^2 <=
      num rho ^ T * (num a * ||x O - xs||^2 + num d / L ^ 2 * mean N (fun k => ||g k xs||^2)).
  Proof.
    intros P R F T. rewrite <- at_start. apply Qle_bool_imp_le, Qle_Rle in R. rewrite Q2R_0 in R.
    eapply Rle_trans; [apply (distance_below T P)|]. rewrite num_is.
    induction T as [|T IH]; [simpl; lra|].
    eapply Rle_trans; [apply F|]. change (Q2R rho ^ S T) with (Q2R rho * Q2R rho ^ T).
    rewrite Rmult_assoc. apply Rmult_le_compat_l; assumption.
  Qed.
End Rate.

(** Any method whose round has the places of the certificate, [X] and [H] those of the state after
    it; [pt t] are the points of round t. *)
Theorem run_rate (data : certificate) (rho a b c d : Q) (X H : vec) {E : space} N mu L r z f g
  (xs x0 : E) (pt : nat -> nat -> nat -> E) (x : nat -> E) (h : nat -> nat -> E) :
  0 < L -> setting N mu L r z f g xs x0 -> mu = num (curvature data) * L ->
  x O = x0 -> (forall k, (k < N)%nat -> h O k = zero) -> (forall t k, pt t O k = xs) ->
  (forall t, all_placed N L xs (x t) (pt t) (with_memory data g (h t) (pt t)) (fun q => q / L) 0
    (places data)) ->
  (forall t k, (k < N)%nat -> x (S t) =
    tell N L xs (x t) (pt t) (with_memory data g (h t) (pt t)) (fun q => q / L) false X k) ->
  (forall t k, (k < N)%nat -> h (S t) k =
    tell N L xs (x t) (pt t) (with_memory data g (h t) (pt t)) (fun q => q / L) true H k) ->
  weights_fit data X H = true -> positive_form a b c d && Qle_bool 0 rho = true ->
  check true data (fall rho a b c d (length (places data)) X H) = true -> forall T,
  ||x T - xs||^2 <=
    num rho ^ T * (num a * ||x0 - xs||^2 + num d / L ^ 2 * mean N (fun k => ||g k xs||^2)).
Proof.
  intros L_pos S mu_is <- H0 P0 P HX HH W Q C T. apply andb_prop in Q as [Q1 Q2].
  apply (rate N (some_client S) L L_pos g xs rho a b c d x h H0 Q1 Q2). intros t.
  apply (round_falls data N mu L _ z f g xs (x t) _ (h t) _ (pt t) rho a b c d X H L_pos
    (setting_at S (x t)) mu_is (P0 t) (P t) (HX t) (HH t) W C).
Qed.

(** * FedDyn with exact local solves *)
Definition feddyn_places_of_a_round (q : Q) : list vec := [Opt; Plus Start (Step q (Minus (Own 2) (Own 1)))].
Definition feddyn_fall (q rho a b c d : Q) : criterion :=
  fall rho a b c d 2 (Minus (Mean (At 1)) (Step q (Mean (Own 1)))) (Own 1).
Theorem feddyn_certified_rate (data : certificate) (q rho a b c d : Q) {E : space} N mu L r z f g (xs x0 : E)
  (alpha : R) (x : nat -> E) (y h : nat -> nat -> E) :
  0 < L -> setting N mu L r z f g xs x0 -> mu = num (curvature data) * L ->
  alpha <> 0 -> num q / L = / alpha -> feddyn N solved alpha g x0 x y h ->
  places data = feddyn_places_of_a_round q -> Qeq_bool (bound data) 0 && Z.eqb (heterogeneity data) 0 = true ->
  positive_form a b c d && Qle_bool 0 rho = true ->
  check true data (feddyn_fall q rho a b c d) = true -> forall T,
  ||x T - xs||^2 <=
    num rho ^ T * (num a * ||x0 - xs||^2 + num d / L ^ 2 * mean N (fun k => ||g k xs||^2)).
Proof.
  intros L_pos S mu_is a0 a_is F P B Q C. apply andb_prop in B as [B1 B2].
  assert (St : forall t k, (k < N)%nat -> h (Datatypes.S t) k = g k (y (Datatypes.S t) k)).
  { intros t k Hk. rewrite (dyn_stored _ _ _ _ _ _ _ _ F) by exact Hk. apply same; intros w.
    pose proof (dyn_work _ _ _ _ _ _ _ _ F t k Hk) as W.
    apply (f_equal (fun v => inner v w)) in W. rewrite inner_zero in W.
    rewrite inner_add, inner_scale, !inner_sub in W. rewrite inner_sub, inner_scale, inner_sub.
    lra. }
  apply (run_rate data rho a b c d (Minus (Mean (At 1)) (Step q (Mean (Own 1)))) (Own 1)
    N mu L r z f g xs x0 (fun t i k => match i with O => xs | _ => y (Datatypes.S t) k end) x h
    L_pos S mu_is (dyn_start _ _ _ _ _ _ _ _ F) (dyn_nothing _ _ _ _ _ _ _ _ F)).
  - reflexivity.
  - intros t. rewrite P. split; [|split; [|exact I]]; intros k w Hk; [reflexivity|].
    apply (f_equal (fun v => inner v w)). cbn [tell]. unfold with_memory. rewrite P.
    apply (solved_is q L alpha g a0 a_is k _ _ _ (dyn_work _ _ _ _ _ _ _ _ F t k Hk)).
  - intros t k Hk. cbn [tell]. unfold with_memory. rewrite P.
    rewrite (dyn_model _ _ _ _ _ _ _ _ F), a_is. f_equal. f_equal. apply vmean_ext; intros j Hj.
    apply St, Hj.
  - intros t k Hk. cbn [tell]. unfold with_memory. rewrite P. apply St, Hk.
  - unfold weights_fit. rewrite B1, B2, P, !andb_true_r. apply Qeq_bool_iff; simpl; ring.
  - exact Q.
  - rewrite P. exact C.
Qed.

(** * SCAFFOLD, option II *)
Definition scaffold_round_place (q : Q) (K j : nat) : vec :=
  Minus (At j) (Step q (Plus (Minus (Own j) (Own (S K))) (Mean (Own (S K))))).
Definition scaffold_places_of_a_round (q : Q) (K : nat) : list vec := places_by (fun i => match i with
  | O => Opt | 1%nat => Start | S j => scaffold_round_place q K j end) K.
Definition scaffold_fall (q : Q) (K : nat) (rho a b c d : Q) : criterion :=
  fall rho a b c d (S K) (Mean (scaffold_round_place q K K)) (Times (1 # Pos.of_nat K)
    (own_sum 1 K)).
Theorem scaffold_certified_rate (data : certificate) (q : Q) (K : nat) (rho a b c d : Q)
  {E : space} N mu L r z f g (xs x0 : E) :
  0 < L -> setting N mu L r z f g xs x0 -> mu = num (curvature data) * L ->
  (1 <= K)%nat -> num q <> 0 -> places data = scaffold_places_of_a_round q K ->
  Qeq_bool (bound data) 0 && Z.eqb (heterogeneity data) 0 = true ->
  positive_form a b c d && Qle_bool 0 rho = true ->
  check true data (scaffold_fall q K rho a b c d) = true -> forall T,
  ||fst (scaffold N (num q / L) K g x0 T) - xs||^2 <=
    num rho ^ T * (num a * ||x0 - xs||^2 + num d / L ^ 2 * mean N (fun k => ||g k xs||^2)).
Proof.
  intros L_pos S mu_is K_pos q0 P B Q C T.
  apply andb_prop in B as [B1 B2]. apply andb_prop in Q as [Q1 Q2].
  set (run := scaffold N (num q / L) K g x0).
  assert (P' : length (places data) = Datatypes.S K)
    by (rewrite P; unfold scaffold_places_of_a_round, places_by; simpl; rewrite map_length, seq_length;
      reflexivity).
  apply (rate N (some_client S) L L_pos g xs rho a b c d (fun t => fst (run t)) (fun t => snd
    (run t)));
    try assumption; [reflexivity|].
  intros t. set (x := fst (run t)). set (cs := snd (run t)).
  set (pt := fun i k => match i with O => xs | Datatypes.S j => steered N
    (num q / L) g cs k x j end).
  assert (Old : forall j k, (j <= K)%nat -> with_memory data g cs pt j k = g k (pt j k)).
  { intros j k Hj. unfold with_memory. rewrite P'.
    assert (Nat.ltb j (Datatypes.S K) = true) as -> by (apply Nat.ltb_lt; lia). reflexivity. }
  assert (New : forall k, with_memory data g cs pt (Datatypes.S K) k = cs k)
    by (intros k; unfold with_memory; rewrite P', Nat.ltb_irrefl; reflexivity).
  assert (Step : forall j k, (1 <= j <= K)%nat -> (k < N)%nat ->
    tell N L xs x pt (with_memory data g cs pt) (fun q => q / L) false
      (scaffold_round_place q K j) k
    = pt (Datatypes.S j) k).
  { intros [|j] k Hj Hk; [lia|]. unfold scaffold_round_place; cbn [tell].
    rewrite Old, New by lia. rewrite (vmean_ext N _ cs) by (intros; apply New). reflexivity. }
  assert (Next : run (Datatypes.S t) = (vmean N (fun k => steered N (num q / L) g cs k x K),
    fun k => (cs k - vmean N cs + / (INR K * (num q / L)) * (x - steered N
      (num q / L) g cs k x K))%vec)).
  { unfold x, cs, run. simpl. destruct (scaffold N (num q / L) K g x0 t); reflexivity. }
  apply (round_falls data N mu L _ z f g xs x _ cs _ pt rho a b c d
    (Mean (scaffold_round_place q K K)) (Times (1 # Pos.of_nat K) (own_sum 1 K))
    L_pos (setting_at S x) mu_is).
  - reflexivity.
  - rewrite P. apply placed_by; [reflexivity|]. intros i k Hi Hk.
    destruct i as [|[|j]]; [lia | reflexivity |]. rewrite Step by first [assumption | lia].
    reflexivity.
  - intros k Hk. rewrite Next. cbn [fst tell]. apply vmean_ext; intros j Hj.
    rewrite Step by first [assumption | lia]. reflexivity.
  - intros k Hk. rewrite Next. cbn [snd tell]. apply same; intros w.
    rewrite option_II, inner_scale; [f_equal | exact K_pos | unfold Rdiv;
      apply Rmult_integral_contrapositive; split; [exact q0 | apply Rinv_neq_0_compat; lra]].
    assert (Sum : forall n, (n <= K)%nat -> inner (tell N L xs x pt (with_memory data g cs pt)
      (fun q => q / L) true (own_sum 1 n) k) w =
      sum n (fun s => inner (g k (steered N (num q / L) g cs k x s)) w)).
    { induction n as [|n IH]; intros Hn; cbn [own_sum tell sum]; [apply inner_zero|].
      rewrite inner_add, IH, Old by lia. reflexivity. }
    rewrite Sum; reflexivity.
  - unfold weights_fit. rewrite B1, B2, P', !andb_true_r.
    assert (W : forall n, (weight (own_sum 1 n) == 0)%Q)
      by (induction n as [|n IH]; simpl; [reflexivity | rewrite IH; reflexivity]).
    apply andb_true_intro; split; apply Qeq_bool_iff; simpl; [ring | rewrite W; ring].
  - rewrite P'. exact C.
Qed.
