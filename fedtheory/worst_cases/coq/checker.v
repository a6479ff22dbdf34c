(** A verified checker of certificates, which hold multipliers only.

    Places of points are normalised to integer combinations of means and of deviations from the
    means; multipliers times conditions are summed in integers; two matrices are left, which must be
    positive semidefinite. Positions count from the optimum, gradients and losses are divided by a
    unit [l]. *)
From Coq Require Import Reals QArith Qreals ZArith List Lra Lia.
From Fedtheory Require Export facts psd.
Import ListNotations.
Open Scope R_scope.
Arguments Qred : simpl never. Arguments Qmult : simpl never. Arguments Qplus : simpl never.
Arguments Qopp : simpl never. Arguments Q2R : simpl never. Arguments Z.mul : simpl never.

(** * Vectors in the words of a method *)

(** Point [i] is where the losses are asked for the [i]-th time, 0 the optimum. [Own i] is the
    client's gradient there. [Step] makes of a gradient a difference of points, [Slope] the other
    way. *)
Inductive vec := Start | Opt | Own (i : nat) | At (i : nat) | Zero | Plus (a b : vec)
  | Minus (a b : vec) | Times (q : Q) (a : vec) | Step (q : Q) (a : vec) | Slope (q : Q) (a : vec)
  | Mean (a : vec).

(** A fraction as a theorem has it. *)
Definition num (q : Q) : R :=
  match Qden q with 1%positive => IZR (Qnum q) | d => IZR (Qnum q) / IZR (Zpos d) end.
Lemma num_is q : num q = Q2R q.
Proof. unfold num, Q2R; destruct q as [n [d|d|]]; simpl; try reflexivity. field. Qed.

(** * Normal forms: a row for means (the start first) and one for deviations *)
Definition row := list Q.
Fixpoint value (r : row) (u : nat -> R) : R :=
  match r with [] => 0 | q :: t => Q2R q * u O + value t (fun i => u (S i)) end.
Definition multiple (q : Q) (r : row) : row := map (fun y => Qred (q * y)) r.
Fixpoint plus_times (q : Q) (r s : row) : row :=
  match r, s with
  | _, [] => r
  | [], _ => multiple q s
  | x :: r', y :: s' => Qred (x + q * y) :: plus_times q r' s'
  end.
Definition basis (i : nat) : row := repeat 0%Q i ++ [1%Q].
Definition normal_of := (row * row)%type.
Definition sum_of (q : Q) (a b : normal_of) : normal_of :=
  (plus_times q (fst a) (fst b), plus_times q (snd a) (snd b)).
Definition multiple_of (q : Q) (a : normal_of) : normal_of :=
  (multiple q (fst a), multiple q (snd a)).
Fixpoint normal (known : list normal_of) (v : vec) : normal_of :=
  match v with
  | Start => (basis 0, []) | Opt | Zero => ([], [])
  | Own O => ([], basis 0) | Own i => (basis i, basis i)
  | At i => nth i known ([], [])
  | Plus a b => sum_of 1 (normal known a) (normal known b)
  | Minus a b => sum_of (-1) (normal known a) (normal known b)
  | Times q a | Step q a | Slope q a => multiple_of q (normal known a)
  | Mean a => (fst (normal known a), [])
  end.
(** By how much a vector moves where the origin is moved, and that it speaks of earlier points. *)
Fixpoint weight (v : vec) : Q :=
  match v with
  | Start | Opt | At _ => 1 | Own _ | Zero => 0
  | Plus a b => weight a + weight b | Minus a b => weight a + - weight b
  | Times q a | Step q a | Slope q a => q * weight a
  | Mean a => weight a
  end.
Fixpoint earlier (n : nat) (v : vec) : bool :=
  match v with
  | At i => Nat.ltb i n
  | Plus a b | Minus a b => earlier n a && earlier n b
  | Times _ a | Step _ a | Slope _ a | Mean a => earlier n a
  | _ => true
  end.
Fixpoint all_normal (known : list normal_of) (places : list vec) : list normal_of :=
  match places with [] => known | p :: t => all_normal (known ++ [normal known p]) t end.
Fixpoint well_placed (n : nat) (places : list vec) : bool :=
  match places with
  | [] => true
  | p :: t => earlier n p && Qeq_bool (weight p) 1 && well_placed (S n) t
  end.

Lemma Q2R_red q : Q2R (Qred q) = Q2R q. Proof. apply Qeq_eqR, Qred_correct. Qed.
Lemma Q2R_0 : Q2R 0 = 0. Proof. unfold Q2R; simpl; lra. Qed.
Lemma Q2R_1 : Q2R 1 = 1. Proof. unfold Q2R; simpl; lra. Qed.
Lemma Q2R_minus_1 : Q2R (-1) = -1. Proof. unfold Q2R; simpl; lra. Qed.
Lemma value_ext r : forall u v, (forall i, u i = v i) -> value r u = value r v.
Proof.
  induction r as [|x r IH]; simpl; intros u v H; [reflexivity|].
  rewrite H, (IH _ (fun i => v (S i))); auto.
Qed.
Lemma value_multiple q s : forall u, value (multiple q s) u = Q2R q * value s u.
Proof.
  unfold multiple; induction s as [|y s IH]; intros u; simpl; [lra|].
  rewrite IH, Q2R_red, Q2R_mult; lra.
Qed.
Lemma value_plus_times q r : forall s u, value (plus_times q r s) u = value r u + Q2R q * value s u.
Proof.
  induction r as [|x r IH]; intros s u; destruct s as [|y s]; cbn [plus_times value]; try lra.
  - rewrite (value_multiple q (y :: s)); simpl; lra.
  - rewrite IH, Q2R_red, Q2R_plus, Q2R_mult; lra.
Qed.
Lemma value_basis i : forall u, value (basis i) u = u i.
Proof.
  induction i as [|i IH]; intros u; simpl; rewrite ?Q2R_0, ?Q2R_1; [lra|].
  fold (basis i). rewrite (IH (fun i => u (S i))); lra.
Qed.

(** Integer rows: [d] times a row of fractions. *)
Definition whole (d : Z) (q : Q) : Z := Z.div (Qnum q * d) (Zpos (Qden q)).
Definition divides (d : Z) (r : row) : bool :=
  forallb (fun q => Z.eqb (whole d q * Zpos (Qden q)) (Qnum q * d)) r.
Definition denominators (r : row) : Z := fold_right (fun q d => Z.lcm (Zpos (Qden q)) d) 1%Z r.
Lemma whole_is d q : Z.eqb (whole d q * Zpos (Qden q)) (Qnum q * d) = true ->
  IZR (whole d q) = IZR d * Q2R q.
Proof.
  intros H. apply Z.eqb_eq, (f_equal IZR) in H; rewrite !mult_IZR in H.
  unfold Q2R. assert (0 < IZR (Zpos (Qden q))) by (apply IZR_lt; reflexivity).
  apply Rmult_eq_reg_r with (IZR (Zpos (Qden q))); [rewrite H; field; lra | lra].
Qed.
Lemma whole_value d r : divides d r = true -> forall u,
  lin (map (whole d) r) u = IZR d * value r u.
Proof.
  induction r as [|q r IH]; simpl; intros H u; [lra|].
  apply andb_prop in H as [H1 H2]; rewrite (IH H2), (whole_is d q H1); lra.
Qed.

Lemma all_normal_length places : forall known,
  length (all_normal known places) = (length known + length places)%nat.
Proof.
  induction places as [|p t IH]; intros known; simpl; [lia|].
  rewrite IH, app_length; simpl; lia.
Qed.

Section Run.
  Context {E : space} (N : nat) (some : (1 <= N)%nat) (l : R) (l_pos : 0 < l) (xs x0 : E).
  (** Point [i] of client [k], and its gradient there; a number of units of steps. *)
  Variables (pt o : nat -> nat -> E) (per : R -> R).
  Hypothesis per_is : forall q, per q = q / l.

  (** A vector as a theorem has it; of gradients where [slope] holds. *)
  Fixpoint tell (slope : bool) (v : vec) (k : nat) : E :=
    match v with
    | Start => if slope then scale l x0 else x0
    | Opt => if slope then scale l xs else xs
    | Own i => if slope then o i k else scale (/ l) (o i k)
    | At i => if slope then scale l (pt i k) else pt i k
    | Zero => zero
    | Plus a b => add (tell slope a k) (tell slope b k)
    | Minus a b => sub (tell slope a k) (tell slope b k)
    | Times q a => scale (num q) (tell slope a k)
    | Step q a => scale (if slope then num q else per (num q)) (tell true a k)
    | Slope q a => scale (if slope then num q * l else num q) (tell false a k)
    | Mean a => vmean N (tell slope a)
    end.
  Definition own i k : E := scale (/ l) (o i k).
  Fixpoint den (v : vec) (k : nat) : E :=
    match v with
    | Start => sub x0 xs | Opt | Zero => zero
    | Own i => own i k | At i => sub (pt i k) xs
    | Plus a b => add (den a k) (den b k) | Minus a b => sub (den a k) (den b k)
    | Times q a | Step q a | Slope q a => scale (Q2R q) (den a k)
    | Mean a => vmean N (den a)
    end.
  Lemma told v : forall slope k w, inner (tell slope v k) w =
    (if slope then l else 1) * (inner (den v k) w + Q2R (weight v) * inner xs w).
  Proof.
    assert (I : l * / l = 1) by (field; lra).
    induction v; intros slope k w; simpl; rewrite ?Q2R_0, ?Q2R_1.
    - destruct slope; rewrite ?inner_scale, inner_sub; lra.
    - destruct slope; rewrite ?inner_scale, inner_zero; lra.
    - unfold own; destruct slope; rewrite ?inner_scale; [|lra].
      rewrite <- (Rmult_1_l (inner (o i k) w)) at 1; rewrite <- I; lra.
    - destruct slope; rewrite ?inner_scale, inner_sub; lra.
    - rewrite inner_zero; lra.
    - rewrite !inner_add, IHv1, IHv2, Q2R_plus; lra.
    - rewrite !inner_sub, IHv1, IHv2, Q2R_plus, Q2R_opp; lra.
    - rewrite !inner_scale, IHv, Q2R_mult, num_is; lra.
    - rewrite !inner_scale, IHv, Q2R_mult, num_is. destruct slope; [lra|].
      rewrite per_is; unfold Rdiv. transitivity ((l * / l) * (Q2R q * (inner (den v k) w + Q2R
        (weight v) * inner xs w)));
        [lra | rewrite I; lra].
    - rewrite !inner_scale, IHv, Q2R_mult, num_is. destruct slope; lra.
    - rewrite !inner_vmean, (mean_ext N _ _ (fun k _ => IHv slope k w)), mean_times, mean_plus.
      rewrite (mean_const N some); reflexivity.
  Qed.

  (** Means and deviations. *)
  Definition M (i : nat) : E := match i with O => sub x0 xs | _ => vmean N (own i) end.
  Definition D (i k : nat) : E :=
    match i with O => own O k | _ => sub (own i k) (vmean N (own i)) end.
  Hypothesis flat : forall w, mean N (fun k => inner (own O k) w) = 0.
  Lemma mean_deviation i w : mean N (fun k => inner (D i k) w) = 0.
  Proof.
    destruct i as [|i]; [apply flat|]. unfold D.
    rewrite (mean_ext N _ (fun k => inner (own (S i) k) w - inner (vmean N (own (S i))) w))
      by (intros; apply inner_sub).
    rewrite mean_minus, mean_const, <- inner_vmean by assumption; lra.
  Qed.
  Lemma mean_value r : forall (h : nat -> nat -> R),
    mean N (fun k => value r (fun i => h i k)) = value r (fun i => mean N (h i)).
  Proof.
    induction r as [|q r IH]; intros h; simpl; [apply mean_const; assumption|].
    rewrite mean_plus, mean_times, (IH (fun i => h (S i))); reflexivity.
  Qed.
  Lemma value_zero r : forall u, (forall i, u i = 0) -> value r u = 0.
  Proof. induction r as [|q r IH]; intros u H; simpl; [reflexivity | rewrite H, IH; auto; lra]. Qed.
  Definition is (v : nat -> E) (a : normal_of) : Prop := forall k w, (k < N)%nat -> inner (v k) w =
    value (fst a) (fun i => inner (M i) w) + value (snd a) (fun i => inner (D i k) w).
  Lemma normal_is known v : earlier (length known) v = true ->
    (forall i, (i < length known)%nat -> is (fun k => sub (pt i k) xs) (nth i known ([], []))) ->
    is (den v) (normal known v).
  Proof.
    intros C K. induction v; intros k w Hk; simpl in *.
    - rewrite Q2R_1; lra.
    - rewrite inner_zero; lra.
    - destruct i as [|i]; simpl fst; simpl snd; rewrite ?value_basis; simpl; [lra|].
      rewrite inner_sub; lra.
    - apply Nat.ltb_lt in C. apply (K i C k w Hk).
    - rewrite inner_zero; lra.
    - apply andb_prop in C as [C1 C2]. rewrite inner_add, (IHv1 C1 k w Hk), (IHv2 C2 k w Hk).
      unfold sum_of; simpl. rewrite !value_plus_times, Q2R_1; lra.
    - apply andb_prop in C as [C1 C2]. rewrite inner_sub, (IHv1 C1 k w Hk), (IHv2 C2 k w Hk).
      unfold sum_of; simpl. rewrite !value_plus_times, Q2R_minus_1; lra.
    - rewrite inner_scale, (IHv C k w Hk). unfold multiple_of; simpl. rewrite !value_multiple; lra.
    - rewrite inner_scale, (IHv C k w Hk). unfold multiple_of; simpl. rewrite !value_multiple; lra.
    - rewrite inner_scale, (IHv C k w Hk). unfold multiple_of; simpl. rewrite !value_multiple; lra.
    - rewrite inner_vmean, (mean_ext N _ _ (fun k Hk => IHv C k w Hk)), mean_plus, mean_const,
        mean_value
        by assumption.
      rewrite (value_zero (snd _)) by (intros; apply mean_deviation); lra.
  Qed.
  Definition placed (i : nat) (p : vec) : Prop :=
    forall k w, (k < N)%nat -> inner (pt i k) w = inner (tell false p k) w.
  Fixpoint all_placed (i : nat) (places : list vec) : Prop :=
    match places with [] => True | p :: t => placed i p /\ all_placed (S i) t end.
  Lemma all_normal_are places : forall known,
    well_placed (length known) places = true -> all_placed (length known) places ->
    (forall i, (i < length known)%nat -> is (fun k => sub (pt i k) xs) (nth i known ([], []))) ->
    forall i, (i < length known + length places)%nat ->
    is (fun k => sub (pt i k) xs) (nth i (all_normal known places) ([], [])).
  Proof.
    induction places as [|p t IH]; intros known W P K i Hi; simpl in *; [apply K; lia|].
    apply andb_prop in W as [W W3]; apply andb_prop in W as [W1 W2]. destruct P as [P1 P2].
    assert (A : length (known ++ [normal known p]) = S (length known))
      by (rewrite app_length; simpl; lia).
    apply (IH (known ++ [normal known p])); rewrite ?A; [exact W3 | exact P2 | | lia].
    intros j Hj. destruct (Nat.eq_dec j (length known)) as [->|n].
    - rewrite nth_middle. intros k w Hk.
      rewrite <- (normal_is known p W1 K k w Hk), inner_sub, (P1 k w Hk), told.
      apply Qeq_bool_eq, Qeq_eqR in W2. rewrite W2, Q2R_1; lra.
    - rewrite app_nth1 by lia. apply K; lia.
  Qed.
  (** Inner products, averaged over the clients. *)
  Definition bm (i j : nat) : R := inner (M i) (M j).
  Definition bd (i j : nat) : R := mean N (fun k => inner (D i k) (D j k)).
  Definition rows := (list Z * list Z)%type.
  Definition prod (x y : rows) : R := bil (fst x) (fst y) bm + bil (snd x) (snd y) bd.
  Definition stands (v : nat -> E) (x : rows) : Prop := forall k w, (k < N)%nat -> inner (v k) w =
    lin (fst x) (fun i => inner (M i) w) + lin (snd x) (fun i => inner (D i k) w).
  Lemma mean_lin r : forall (h : nat -> nat -> R),
    mean N (fun k => lin r (fun i => h i k)) = lin r (fun i => mean N (h i)).
  Proof.
    induction r as [|q r IH]; intros h; simpl; [apply mean_const; assumption|].
    rewrite mean_plus, mean_times, (IH (fun i => h (S i))); reflexivity.
  Qed.
  Lemma lin_nothing r : forall u, (forall i, u i = 0) -> lin r u = 0.
  Proof. induction r as [|q r IH]; intros u H; simpl; [reflexivity | rewrite H, IH; auto; lra]. Qed.
  Lemma prod_is u v x y : stands u x -> stands v y ->
    mean N (fun k => inner (u k) (v k)) = prod x y.
  Proof.
    intros U V.
    assert (A : forall k, (k < N)%nat -> inner (u k) (v k) =
      lin (fst x) (fun i => lin (fst y) (bm i)) +
      lin (fst x) (fun i => lin (snd y) (fun j => inner (D j k) (M i))) +
      (lin (snd x) (fun i => lin (fst y) (fun j => inner (D i k) (M j))) +
       lin (snd x) (fun i => lin (snd y) (fun j => inner (D i k) (D j k))))).
    { intros k Hk. rewrite (U k (v k) Hk), <- !lin_sum. f_equal; apply lin_ext; intros i;
        rewrite inner_sym, (V k _ Hk).
      - f_equal. apply lin_ext; intros j; apply inner_sym.
      - f_equal; apply lin_ext; intros j; apply inner_sym. }
    rewrite (mean_ext N _ _ A), !mean_plus, mean_const by assumption.
    rewrite !(mean_lin _ (fun i k => lin _ (fun j => _))).
    rewrite (lin_nothing (fst x) (fun i => mean N _)), (lin_nothing (snd x) (fun i => mean N
      (fun k => lin (fst y) _))).
    - unfold prod, bil, bd. rewrite Rplus_0_r, Rplus_0_l. f_equal. apply lin_ext; intros i.
      apply mean_lin.
    - intros i. rewrite (mean_lin (fst y) (fun j k => inner (D i k) (M j))).
      apply lin_nothing; intros; apply mean_deviation.
    - intros i. rewrite (mean_lin (snd y) (fun j k => inner (D j k) (M i))).
      apply lin_nothing; intros; apply mean_deviation.
  Qed.
  Fixpoint comb (r : list Z) (a : nat -> E) : E :=
    match r with [] => zero | z :: t => add (scale (IZR z) (a O)) (comb t (fun i => a (S i))) end.
  Lemma inner_comb r : forall a w, inner (comb r a) w = lin r (fun i => inner (a i) w).
  Proof.
    induction r as [|z r IH]; intros a w; simpl; [apply inner_zero|].
    rewrite inner_add, inner_scale, IH; reflexivity.
  Qed.
  Lemma gram_inner (a : nat -> E) : gram (fun i j => inner (a i) (a j)).
  Proof.
    split; [intros; apply inner_sym | intros r]. unfold bil.
    rewrite (lin_ext r _ (fun i => inner (a i) (comb r a))).
    - rewrite <- inner_comb; apply inner_pos.
    - intros i. rewrite inner_sym, inner_comb. apply lin_ext; intros j; apply inner_sym.
  Qed.
  Lemma gram_means : gram bm. Proof. apply gram_inner. Qed.
  Lemma gram_deviations : gram bd.
  Proof.
    split; [intros; apply mean_ext; intros; apply inner_sym | intros r]. unfold bil, bd.
    rewrite (lin_ext r _ (fun i => mean N (fun k => lin r (fun j => inner (D i k) (D j k)))))
      by (intros i; rewrite (mean_lin r (fun j k => inner (D i k) (D j k))); reflexivity).
    rewrite <- (mean_lin r (fun i k => lin r (fun j => inner (D i k) (D j k)))).
    apply mean_pos; [assumption|]. intros k _. apply (proj2 (gram_inner (fun i => D i k)) r).
  Qed.
End Run.

(** * Sums of multipliers times conditions *)
Lemma sum_front n : forall u, sum (S n) u = u O + sum n (fun i => u (S i)).
Proof. induction n as [|n IH]; intros u; [simpl; lra|]. change (sum (S n) u + u (S n) =
  u O + (sum n (fun i => u (S i)) + u (S n))). rewrite IH; lra. Qed.
Lemma sum_nothing n u : (forall i, u i = 0) -> sum n u = 0.
Proof. intros H; induction n; simpl; rewrite ?IHn, ?H; lra. Qed.
Lemma lin_as_sum r : forall n u, (length r <= n)%nat ->
  lin r u = sum n (fun j => IZR (nth j r 0%Z) * u j).
Proof.
  induction r as [|z r IH]; intros n u H; simpl in H.
  - symmetry; apply sum_nothing; intros [|i]; simpl; lra.
  - destruct n as [|n]; [lia|]. rewrite sum_front. simpl. rewrite (IH n) by lia. reflexivity.
Qed.
Definition columns (L : list (list Z)) : list Z := fold_right plus [] L.
Lemma columns_sum L : forall n g, (length L <= n)%nat ->
  sum n (fun j => lin (nth j L []) g) = lin (columns L) g.
Proof.
  induction L as [|r L IH]; intros n g H; simpl in H.
  - apply sum_nothing; intros [|i]; reflexivity.
  - destruct n as [|n]; [lia|]. rewrite sum_front. simpl. rewrite (IH n) by lia.
    rewrite lin_plus; reflexivity.
Qed.
Lemma lin_const r a : lin r (fun _ => a) = IZR (total r) * a.
Proof. induction r as [|z r IH]; simpl; rewrite ?IH, ?plus_IZR; lra. Qed.
Lemma lin_pos_below r : forall u, forallb (Z.leb 0) r = true ->
  (forall i, (i < length r)%nat -> 0 <= u i) -> 0 <= lin r u.
Proof.
  induction r as [|x r IH]; intros u H U; simpl in *; [lra|].
  apply andb_prop in H as [H1 H2]; apply Z.leb_le, IZR_le in H1.
  specialize (IH (fun i => u (S i)) H2 (fun i h => U (S i) (proj1 (Nat.succ_lt_mono _ _) h))).
  specialize (U O ltac:(lia)); nra.
Qed.
Lemma bil_plus r s t b : bil r (plus s t) b = bil r s b + bil r t b.
Proof. unfold bil; rewrite <- lin_sum; apply lin_ext; intros; apply lin_plus. Qed.
Lemma bil_times r z s b : bil r (times z s) b = IZR z * bil r s b.
Proof. unfold bil; rewrite <- lin_scale; apply lin_ext; intros; apply lin_times. Qed.
Lemma bil_times_l r z s b : bil (times z r) s b = IZR z * bil r s b.
Proof. unfold bil; apply lin_times. Qed.
Lemma bil_nothing r b : bil r [] b = 0.
Proof. unfold bil; simpl; rewrite lin_const; lra. Qed.
Fixpoint combine (r : list Z) (X : list (list Z)) : list Z :=
  match r, X with
  | z :: r', x :: X' =>
      if Z.eqb z 0 then combine r' X' else plus (map (fun y => y * z)%Z x) (combine r' X')
  | _, _ => []
  end.
Lemma bil_combine s b r : forall X, bil s (combine r X) b = lin r (fun i => bil s (nth i X []) b).
Proof.
  induction r as [|z r IH]; intros X; simpl; [apply bil_nothing|].
  destruct X as [|x X]; simpl.
  - rewrite !bil_nothing, lin_const; lra.
  - destruct (Z.eqb_spec z 0) as [->|]; rewrite ?bil_plus, IH; [lra|].
    rewrite (map_ext _ (Z.mul z)) by (intros; apply Z.mul_comm). fold (times z x).
    rewrite bil_times; reflexivity.
Qed.
Definition every (n : nat) (t : nat -> list (list Z)) : list (list Z) :=
  fold_right (fun j => add_matrix (t j)) [] (seq 0 n).
Lemma form_every n t b : form (every n t) b = sum n (fun j => form (t j) b).
Proof.
  unfold every. assert (A : forall a, form (fold_right (fun j => add_matrix (t j)) [] (seq a n)) b =
    sum n (fun j => form (t (a + j)%nat) b)); [|apply A].
  induction n as [|n IH]; intros a; [reflexivity|]. rewrite sum_front. simpl.
  rewrite form_add, IH, Nat.add_0_r. f_equal. apply sum_ext; intros; f_equal; f_equal; lia.
Qed.

Section Sums.
  Variables (n : nat) (smooth e mn : Z) (L : list (list Z)).
  (** What one point's row of multipliers makes of rows of gradients [Us] and places [Ps]. *)
  Definition turned (Us Ps : list (list Z)) (c : Z) (r : list Z) (j : nat) : list Z :=
    plus (times (smooth * (c + total r)) (nth j Us []))
      (plus (times (2 * e) (plus (combine r Ps) (times (- total r) (nth j Ps []))))
        (times (- (2 * smooth)) (combine r Us))).
  Definition of_point (C : list Z) (Us Ps : list (list Z)) (j : nat) : list (list Z) :=
    let r := nth j L [] in let c := nth j C 0%Z in
    add_matrix (outer (nth j Us []) (turned Us Ps c r j))
      (if Z.eqb mn 0 then []
       else outer (times (e * mn * (c - total r)) (nth j Ps [])) (nth j Ps [])).
  Definition of_losses (Us Ps : list (list Z)) : list (list Z) :=
    let C := columns L in every n (of_point C Us Ps).
  Lemma of_point_form C Us Ps j b :
    let r := nth j L [] in let c := IZR (nth j C 0%Z) in let t := IZR (total r) in
    let u := nth j Us [] in let p := nth j Ps [] in
    form (of_point C Us Ps j) b = IZR smooth * (c + t) * bil u u b
      + 2 * IZR e * (lin r (fun i => bil u (nth i Ps []) b) - t * bil u p b)
      - 2 * IZR smooth * lin r (fun i => bil u (nth i Us []) b)
      + IZR e * IZR mn * (c - t) * bil p p b.
  Proof.
    intros r c t u p. unfold of_point, turned. fold r u p.
    rewrite form_add, form_outer, !bil_plus, !bil_times, !bil_plus, !bil_times, !bil_combine.
    rewrite !opp_IZR, !mult_IZR, plus_IZR. fold c t.
    destruct (Z.eqb_spec mn 0) as [->|]; simpl form; rewrite ?form_outer, ?bil_times_l, ?mult_IZR,
      ?minus_IZR; fold c t; lra.
  Qed.
  Variables (bm bd : nat -> nat -> R) (Um Ud Pm Pd : list (list Z)) (kappa : R) (v : nat -> R).
  Let both (X Y : list (list Z) * list (list Z)) (i j : nat) : R :=
    bil (nth i (fst X) []) (nth j (fst Y) []) bm + bil (nth i (snd X) []) (nth j (snd Y) []) bd.
  Let U := (Um, Ud). Let P := (Pm, Pd).
  Definition condition (i j : nat) : R :=
    kappa * (v i - v j) - IZR e * IZR mn * (both P P i i - both P P j j)
    - 2 * IZR e * (both U P j i - both U P j j)
    - IZR smooth * (both U U i i - 2 * both U U j i + both U U j j).
  Hypothesis short : (length L <= n)%nat.
  Hypothesis narrow : (length (columns L) <= n)%nat.
  Lemma conditions_sum : sum n (fun j => lin (nth j L []) (fun i => condition i j)) =
    kappa * sum n (fun j => IZR (nth j (columns L) 0%Z - total (nth j L [])) * v j)
    - form (of_losses Um Pm) bm - form (of_losses Ud Pd) bd.
  Proof.
    unfold of_losses; rewrite !form_every, <- sum_times.
    set (g := fun i => kappa * v i - IZR e * IZR mn * both P P i i - IZR smooth * both U U i i).
    set (rest := fun j => let r := nth j L [] in
      - (IZR (total r) * (kappa * v j - IZR e * IZR mn * both P P j j + IZR smooth * both U U j j
        - 2 * IZR e * both U P j j)) - 2 * IZR e * lin r (both U P j)
      + 2 * IZR smooth * lin r (both U U j)).
    assert (A : forall j, lin (nth j L []) (fun i => condition i j) = lin (nth j L []) g + rest j).
    { intros j. unfold rest. rewrite (lin_ext _ _ (fun i => (g i + - (kappa * v j
        - IZR e * IZR mn * both P P j j + IZR smooth * both U U j j - 2 * IZR e * both U P j j))
        + (- (2 * IZR e) * both U P j i + 2 * IZR smooth * both U U j i)))
        by (intros i; unfold condition, g; lra).
      rewrite !lin_sum, !lin_scale, lin_const; lra. }
    rewrite (sum_ext n _ _ (fun j _ => A j)), sum_plus, (columns_sum L n g short).
    rewrite (lin_as_sum (columns L) n g narrow), <- sum_plus.
    assert (B : forall a b c, sum n a - sum n b - sum n c = sum n (fun j => a j - b j - c j)).
    { intros a b c. rewrite (sum_ext n (fun j => a j - b j - c j)
        (fun j => a j + -1 * b j + -1 * c j))
        by (intros; lra). rewrite !sum_plus, !sum_times; lra. }
    rewrite B. apply sum_ext; intros j _. rewrite !of_point_form, minus_IZR.
    unfold rest, g, both, U, P; cbn [fst snd].
    rewrite !(lin_sum (nth j L []) (fun i => bil _ _ bm) (fun i => bil _ _ bd)). lra.
  Qed.
End Sums.

(** * Certificates *)

(** Multipliers are integers over [denominator]: of the limits on the start, on the heterogeneity
    and on the gradients' norms, and, in row j at column i, of f_i >= f_j + <g_j, x_i - x_j> + ...
    *)
Record certificate := Certificate {
  curvature : Q;
  spread : Q;
  bound : Q;
  places : list vec;
  denominator : positive;
  near : Z;
  heterogeneity : Z;
  norms : list Z;
  multipliers : list (list Z) }.

(** Multiples of means over the clients of inner products. *)
Definition products := list (Q * (vec * vec)).
(** Weights of F at points over [denominator], the distance of a point, the gradient of F there, or
    products, less others that are known to be at least 0 (their numbers are at least 0, too), or
    the sum of weights of F and products. *)
Inductive criterion := Gap (weights : list Z) | Distance (i : nat) | Gradient (i : nat)
  | Form (of less : products) | Sum (weights : list Z) (of less : products).

Definition point (i : nat) : list Z := repeat 0%Z i ++ [1%Z].
Definition own_mean (i : nat) : list Z := match i with O => [] | _ => point i end.

Section Check.
  Variables (smooth : bool) (c : certificate) (goal : criterion).
  Let n := length (places c).
  Let forms := all_normal [] (places c).
  Let mn := Qnum (curvature c). Let md := Zpos (Qden (curvature c)).
  Let e := (md - mn)%Z. Let s := if smooth then 1%Z else 0%Z.
  Let D := Zpos (denominator c).
  Let of_goal : products := match goal with Form l m | Sum _ l m => l ++ m | _ => [] end.
  Definition least_common : Z := fold_right (fun a d =>
    Z.lcm (denominators (fst a)) (Z.lcm (denominators (snd a)) d)) 1%Z
    (forms ++ flat_map (fun p => [normal forms (fst (snd p)); normal forms (snd (snd p))]) of_goal).
  Variable d : Z.
  Definition kappa : Z := (2 * e * md * d * d)%Z.
  Definition at_means := map (fun a => map (whole d) (fst a)) forms.
  Definition at_deviations := map (fun a => map (whole d) (snd a)) forms.
  Definition shifted (o : nat -> list Z) (P : list (list Z)) : list (list Z) :=
    map (fun i =>
      plus (times (d * md) (o i)) (if Z.eqb mn 0 then [] else times (- mn) (nth i P [])))
      (seq 0 n).
  Definition rows_of (side : normal_of -> row) (v : vec) : list Z :=
    map (whole d) (side (normal forms v)).
  Definition of_products (side : normal_of -> row) (l : products) : list (list Z) :=
    fold_right (fun p => add_matrix (outer
      (times (2 * e * md * whole D (fst p)) (rows_of side (fst (snd p))))
      (rows_of side (snd (snd p)))))
      [] l.
  Definition fine (l : products) : bool := divides D (map fst l) && forallb (fun p =>
    let good v := earlier n v && divides d (fst (normal forms v)) &&
      divides d (snd (normal forms v)) in
    good (fst (snd p)) && good (snd (snd p))) l.
  Definition of_limits (first : Z) (mean : bool) (o : nat -> list Z) (P : list (list Z)) :=
    add_matrix (outer [(kappa * first)%Z] [1%Z]) (add_matrix
      (match norms c with [] => [] | r => every n (fun j =>
        let z := nth j r 0%Z in
        if Z.eqb z 0 then [] else outer (times (kappa * z) (o j)) (o j)) end)
      match goal with
      | Gap _ => []
      | Distance i => outer (times (- (2 * e * md * D)) (nth i P [])) (nth i P [])
      | Gradient i => if mean then outer (times (- (kappa * D)) (o i)) (o i) else []
      | Form l m | Sum _ l m => of_products (if mean then fst else snd)
          (map (fun p => (- fst p, snd p)%Q) (l ++ m))
      end).
  Definition matrix (first : Z) (mean : bool) (o : nat -> list Z) (P : list (list Z)) :=
    add_matrix (of_limits first mean o P) (of_losses n s e mn (multipliers c) (shifted o P) P).
  Definition weights : list Z :=
    match goal with Gap w | Sum w _ _ => plus [(- total w)%Z] w | _ => [] end.
  Definition in_form (l m : products) : bool :=
    fine (map (fun p => (- fst p, snd p)%Q) (l ++ m)) && forallb (fun p => Qle_bool 0 (fst p)) m.
  Definition in_range : bool :=
    match goal with
    | Gap w => Nat.leb (length w) n | Distance i | Gradient i => Nat.ltb i n
    | Form l m => in_form l m
    | Sum w l m => Nat.leb (length w) n && in_form l m
    end.
  Definition fits : bool :=
    let C := columns (multipliers c) in
    forallb (fun j => Z.eqb
      (nth j C 0%Z - total (nth j (multipliers c) []) + nth j weights 0%Z)%Z 0%Z) (seq 0 n).
  Definition check_means : bool :=
    Nat.ltb 0 n && Z.ltb 0 d && (if smooth then Z.ltb 0 e else Z.eqb mn 0) &&
    (if smooth then match norms c with [] => true | _ => false end else true) &&
    well_placed 0 (places c) &&
    forallb (fun a => divides d (fst a) && divides d (snd a)) forms && in_range &&
    Z.leb 0 (near c) && Z.leb 0 (heterogeneity c) && forallb (Z.leb 0) (norms c) &&
    forallb (forallb (Z.leb 0)) (multipliers c) &&
    Nat.leb (length (multipliers c)) n && Nat.leb (length (norms c)) n &&
    forallb (fun r => Nat.leb (length r) n) (multipliers c) && fits &&
    Qle_bool (inject_Z (near c + total (norms c)) + inject_Z (heterogeneity c) *
      (spread c * spread c))
      (inject_Z D * bound c) &&
    semidefinite (matrix (near c) true own_mean at_means).
  Definition deviations : list (list Z) := matrix (heterogeneity c) false point at_deviations.
End Check.
(** Of one client nothing deviates from the mean. *)
Definition check_alone (smooth : bool) (c : certificate) (goal : criterion) : bool :=
  check_means smooth c goal (least_common c goal).
Definition check (smooth : bool) (c : certificate) (goal : criterion) : bool :=
  check_alone smooth c goal && semidefinite (deviations smooth c goal (least_common c goal)).

(** What the theorems about classes of losses need of it. *)
Lemma check_parts smooth c goal : check_alone smooth c goal = true -> (0 < length (places c))%nat /\
  (smooth = true -> (0 < Zpos (Qden (curvature c)) - Qnum (curvature c))%Z /\ norms c = []).
Proof.
  unfold check_alone, check_means. intros C. do 13 apply andb_prop in C as [C _].
  apply andb_prop in C as [C NS]. apply andb_prop in C as [C E0]. apply andb_prop in C as [C _].
  split; [apply Nat.ltb_lt, C|]. intros ->. split; [apply Z.ltb_lt, E0|].
  destruct (norms c); [reflexivity | discriminate].
Qed.

Lemma columns_length n L : forallb (fun r => Nat.leb (length r) n) L = true ->
  (length (columns L) <= n)%nat.
Proof.
  assert (P : forall r s, (length r <= n)%nat -> (length s <= n)%nat ->
    (length (plus r s) <= n)%nat).
  { intros r; revert n; induction r as [|x r IH]; intros n s H I; simpl in *; [exact I|].
    destruct s as [|y s]; simpl in *; [exact H|]. destruct n; [lia|].
    specialize (IH n s); lia. }
  induction L as [|r L IH]; simpl; [lia|]. intros H; apply andb_prop in H as [H1 H2].
  apply P; [apply Nat.leb_le; exact H1 | apply IH, H2].
Qed.
Lemma lin_point i u : lin (point i) u = u i.
Proof.
  revert u; induction i as [|i IH]; intros u; simpl; [lra|].
  fold (point i); rewrite (IH (fun i => u (S i))); lra.
Qed.

(** The interpolation inequality between integer combinations. *)
Lemma scaled_condition {E : space} (smooth : bool) (a b x y : E) d md mn v :
  0 < md -> 0 < d -> 0 < md - mn -> (smooth = false -> mn = 0) ->
  0 <= v - <<y, a - b>> - (if smooth then / (2 * (1 - mn * / md)) *
    (||x - y||^2 + mn * / md * ||a - b||^2 - 2 * (mn * / md) * <<x - y, a - b>>) else 0) ->
  let U z c := ((d * md)%R * z - mn * (d * c))%vec in
  0 <= 2 * (md - mn) * md * d * d * v - (md - mn) * mn * (||d * a||^2 - ||d * b||^2)
    - 2 * (md - mn) * (<<U y b, d * a>> - <<U y b, d * b>>)
    - (if smooth then 1 else 0) * (||U x a||^2 - 2 * <<U y b, U x a>> + ||U y b||^2).
Proof.
  intros Hmd Hd He Hs I U.
  assert (K : 0 <= 2 * (md - mn) * md * d * d) by (repeat (apply Rmult_le_pos; try lra)).
  apply (Rmult_le_pos _ _ K) in I. eapply Rle_trans; [exact I | right]. clear I K. unfold U, sub.
  repeat rewrite ?inner_add, ?inner_add_r, ?inner_scale, ?inner_scale_r.
  rewrite ?(inner_sym b a), ?(inner_sym y x), ?(inner_sym b y), ?(inner_sym b x),
    ?(inner_sym a y), ?(inner_sym a x). destruct smooth.
  - field. split; lra.
  - rewrite (Hs eq_refl). field.
Qed.

Section Sound.
  Context {E : space} (N : nat) (some : (1 <= N)%nat) (l : R) (l_pos : 0 < l) (xs x0 : E).
  Variables (pt o : nat -> nat -> E) (per : R -> R) (val : nat -> nat -> R) (unit : R).
  Hypothesis per_is : forall q, per q = q / l.
  Variables (smooth : bool) (c : certificate) (goal : criterion).
  Let u := own l o. Let p i k := sub (pt i k) xs. Let m := Q2R (curvature c).
  Let n := length (places c).
  Hypothesis flat : forall w, mean N (fun k => inner (u O k) w) = 0.
  Hypothesis here : all_placed N l xs x0 pt o per 0 (places c).
  Hypothesis unit_pos : 0 <= unit.
  Hypothesis starts : inner (sub x0 xs) (sub x0 xs) <= unit.
  Hypothesis spreads : heterogeneity c = 0%Z \/
    mean N (fun k => inner (u O k) (u O k)) <= Q2R (spread c) * Q2R (spread c) * unit.
  Hypothesis bounded : forall i, (i < n)%nat -> norms c = [] \/
    mean N (fun k => inner (u i k) (u i k)) <= unit.
  Hypothesis interpolated : forall i j k, (i < n)%nat -> (j < n)%nat -> (k < N)%nat ->
    0 <= val i k - val j k - inner (u j k) (sub (p i k) (p j k)) - (if smooth then
      / (2 * (1 - m)) * (inner (sub (u i k) (u j k)) (sub (u i k) (u j k))
        + m * inner (sub (p i k) (p j k)) (sub (p i k) (p j k))
        - 2 * m * inner (sub (u i k) (u j k)) (sub (p i k) (p j k))) else 0).
  Definition summed (P : products) : R := fold_right (fun x s => Q2R (fst x) * mean N (fun k =>
    inner (den N l xs x0 pt o (fst (snd x)) k) (den N l xs x0 pt o (snd (snd x)) k)) + s) 0 P.
  Hypothesis less_known : match goal with
    | Form _ P | Sum _ _ P => forall x, In x P -> 0 <= mean N (fun k =>
        inner (den N l xs x0 pt o (fst (snd x)) k) (den N l xs x0 pt o (snd (snd x)) k))
    | _ => True
    end.
  Definition measured : R :=
    match goal with
    | Gap w => / IZR (Zpos (denominator c)) *
        lin w (fun i => mean N (val i) - mean N (val O))
    | Distance i => mean N (fun k => inner (p i k) (p i k))
    | Gradient i => inner (vmean N (u i)) (vmean N (u i))
    | Form P _ => summed P
    | Sum w P _ => / IZR (Zpos (denominator c)) *
        lin w (fun i => mean N (val i) - mean N (val O)) + summed P
    end.
  Lemma checked_means : check_alone smooth c goal = true ->
    0 <= form (deviations smooth c goal (least_common c goal)) (bd N l o) ->
    measured <= Q2R (bound c) * unit.
  Proof.
    unfold check_alone; set (d := least_common c goal); clearbody d. unfold check_means.
    fold n. rewrite !andb_true_iff.
    intros ((((((((((((((((N0 & D0) & E0) & NS) & W) & DV) & IR) & NP) & HP) & NN) & LP) & LL) & NL)
      & LW) & FI) & BO) & SM) SD.
    unfold deviations in SD.
    set (md := Zpos (Qden (curvature c))) in *. set (mn := Qnum (curvature c)) in *.
    set (e := (md - mn)%Z) in *. set (s := if smooth then 1%Z else 0%Z) in *.
    set (DD := Zpos (denominator c)) in *.
    set (Pm := at_means c d) in *. set (Pd := at_deviations c d) in *.
    set (Um := shifted c d own_mean Pm). set (Ud := shifted c d point Pd).
    apply Z.ltb_lt in D0. apply Nat.ltb_lt in N0.
    assert (d_pos : 0 < IZR d) by (apply IZR_lt; exact D0).
    assert (md_pos : 0 < IZR md) by (apply IZR_lt; reflexivity).
    assert (DD_pos : 0 < IZR DD) by (apply IZR_lt; reflexivity).
    assert (m_is : m = IZR mn * / IZR md) by reflexivity.
    assert (e_is : IZR e = IZR md - IZR mn) by (unfold e; apply minus_IZR).
    assert (e_pos : 0 < IZR e).
    { destruct smooth; [apply IZR_lt, Z.ltb_lt, E0|]. apply Z.eqb_eq in E0. rewrite e_is, E0; lra. }
    set (is_rows := stands N l xs x0 o).
    (* what rows stand for *)
    assert (A : forall i, (i < n)%nat ->
      is_rows (fun k => scale (IZR d) (p i k)) (nth i Pm [], nth i Pd [])).
    { intros i Hi k w Hk. rewrite inner_scale. unfold p.
      rewrite (all_normal_are N some l l_pos xs x0 pt o per per_is flat (places c) [] W here
        (fun i h => False_rect _ (Nat.nlt_0_r i h)) i Hi k w Hk).
      rewrite forallb_forall in DV.
      assert (I : (i < length (all_normal [] (places c)))%nat) by (rewrite all_normal_length;
        exact Hi).
      specialize (DV _ (nth_In _ ([], []) I)). apply andb_prop in DV as [V1 V2].
      unfold Pm, Pd, at_means, at_deviations. cbn [fst snd].
      change (@nil Z) with ((fun a : normal_of => map (whole d) (fst a)) ([], [])) at 1.
      rewrite map_nth.
      change (@nil Z) with ((fun a : normal_of => map (whole d) (snd a)) ([], [])) at 1.
      rewrite map_nth.
      rewrite (whole_value d _ V1), (whole_value d _ V2). apply Rmult_plus_distr_l. }
    assert (Ow : forall i, is_rows (u i) (own_mean i, point i)).
    { intros i k w Hk. cbn [fst snd]. destruct i as [|i].
      - rewrite lin_point; simpl. unfold u; lra.
      - change (own_mean (S i)) with (point (S i)). rewrite !lin_point. cbn [M D].
        rewrite inner_sub. unfold u; lra. }
    assert (B : forall i, (i < n)%nat -> is_rows
      (fun k => sub (scale (IZR (d * md)) (u i k)) (scale (IZR mn) (scale (IZR d) (p i k))))
      (nth i Um [], nth i Ud [])).
    { intros i Hi k w Hk. rewrite inner_sub, inner_scale, (inner_scale (IZR mn)), (Ow i k w Hk),
        (A i Hi k w Hk). cbn [fst snd].
      assert (Nth : forall (q : nat -> list Z), nth i (map q (seq 0 n)) [] = q i).
      { intros q. rewrite (nth_indep _ [] (q O)) by (rewrite map_length, seq_length; exact Hi).
        rewrite map_nth, seq_nth by exact Hi. reflexivity. }
      unfold Um, Ud, shifted. fold n. rewrite !Nth, !lin_plus, !lin_times.
      fold mn md. destruct (Z.eqb_spec mn 0) as [->|]; rewrite ?lin_times, ?opp_IZR; simpl lin;
        lra. }
    (* conditions *)
    set (bm := bm N l xs x0 o). set (bd := bd N l o) in *.
    set (vm := fun i => mean N (val i)).
    assert (C : forall i j, (i < n)%nat -> (j < n)%nat ->
      0 <= condition s e mn bm bd Um Ud Pm Pd (IZR (kappa c d)) vm i j).
    { intros i j Hi Hj. unfold condition; cbn [fst snd].
      set (product := prod N l xs x0 o). 
      change (bil ?x ?y bm + bil ?z ?w bd) with (product (x, z) (y, w)).
      unfold product. rewrite <- !(prod_is N some l xs x0 o flat _ _ _ _ (A i Hi) (A i Hi)).
      rewrite <- !(prod_is N some l xs x0 o flat _ _ _ _ (A j Hj) (A j Hj)).
      rewrite <- !(prod_is N some l xs x0 o flat _ _ _ _ (B j Hj) (A i Hi)).
      rewrite <- !(prod_is N some l xs x0 o flat _ _ _ _ (B j Hj) (A j Hj)).
      rewrite <- !(prod_is N some l xs x0 o flat _ _ _ _ (B i Hi) (B i Hi)).
      rewrite <- !(prod_is N some l xs x0 o flat _ _ _ _ (B j Hj) (B i Hi)).
      rewrite <- !(prod_is N some l xs x0 o flat _ _ _ _ (B j Hj) (B j Hj)).
      unfold vm. rewrite <- !mean_times, <- !mean_minus, <- !mean_plus, <- !mean_times,
        <- !mean_minus.
      apply mean_pos; [assumption|]. intros k Hk.
      assert (K : IZR (kappa c d) = 2 * (IZR md - IZR mn) * IZR md * IZR d * IZR d)
        by (unfold kappa; fold md mn e; rewrite !mult_IZR, e_is; reflexivity).
      rewrite K, e_is, mult_IZR. replace (IZR s) with (if smooth then 1 else 0)
        by (unfold s; destruct smooth; reflexivity).
      apply (scaled_condition smooth); [assumption | assumption | lra | | ].
      - intros ->. apply Z.eqb_eq in E0; rewrite E0; reflexivity.
      - rewrite <- m_is. apply interpolated; assumption. }
    clear interpolated.
    (* their sum *)
    set (L := multipliers c) in *.
    assert (S : 0 <= sum n (fun j => lin (nth j L []) (fun i =>
      condition s e mn bm bd Um Ud Pm Pd (IZR (kappa c d)) vm i j))).
    { apply sum_pos; intros j Hj. destruct (Nat.lt_ge_cases j (length L)) as [h|h].
      - rewrite forallb_forall in LP, LW. pose proof (nth_In L [] h) as In.
        apply lin_pos_below; [apply LP, In|]. intros i Hi. apply C; [|assumption].
        specialize (LW _ In). apply Nat.leb_le in LW. lia.
      - rewrite nth_overflow by assumption. simpl; lra. }
    apply Nat.leb_le in LL.
    rewrite (conditions_sum n s e mn L bm bd Um Ud Pm Pd _ vm LL (columns_length n L LW)) in S.
    assert (FV : sum n (fun j => IZR (nth j (columns L) 0%Z - total (nth j L [])) * vm j)
      = - lin (weights goal) vm).
    { rewrite (lin_as_sum (weights goal) n). 
      - rewrite <- (Rmult_1_l (sum n (fun j => IZR (nth j (weights goal) 0%Z) * vm j))).
        rewrite <- Ropp_mult_distr_l_reverse, <- sum_times. apply sum_ext; intros j Hj.
        unfold fits in FI. fold L in FI. rewrite forallb_forall in FI.
        specialize (FI j). rewrite in_seq in FI. specialize (FI ltac:(lia)).
        apply Z.eqb_eq, (f_equal IZR) in FI. rewrite plus_IZR in FI. nra.
      - destruct goal as [w|i|i|P P2|w P P2]; simpl in *; try lia;
          [|apply andb_prop in IR as [IR _]]; apply Nat.leb_le in IR;
          destruct w as [|z w]; simpl in *; lia. }
    rewrite FV in S.
    (* the forms that are left *)
    apply (semidefinite_sound _ bm (gram_means N l xs x0 o)) in SM.
    unfold matrix in SM, SD. fold n s e mn L Um Ud in SM, SD. rewrite form_add in SM, SD.
    unfold of_limits in SM, SD. rewrite !form_add, !form_outer in SM, SD.
    set (K := IZR (kappa c d)) in *.
    assert (K_is : K = 2 * IZR e * IZR md * IZR d * IZR d)
      by (unfold K, kappa; fold md mn e; rewrite !mult_IZR; reflexivity).
    assert (K_pos : 0 < K) by (rewrite K_is; repeat (apply Rmult_lt_0_compat; try lra)).
    fold mn md in SM, SD. fold e in SM, SD. fold DD n in SM, SD.
    assert (NF : forall b (f : nat -> list Z), form match norms c with [] => [] | r => every n
      (fun j =>
        if Z.eqb (nth j r 0%Z) 0 then [] else outer (times (kappa c d * nth j r 0%Z) (f j))
          (f j)) end b
      = K * sum n (fun j => IZR (nth j (norms c) 0%Z) * bil (f j) (f j) b)).
    { intros b f. destruct (norms c) as [|z r]; [rewrite sum_nothing; [simpl; lra|]|].
      - intros [|i]; simpl; lra.
      - rewrite form_every, <- sum_times. apply sum_ext; intros j _.
        destruct (Z.eqb_spec (nth j (z :: r) 0%Z) 0) as [->|]; [simpl; lra|].
        rewrite form_outer, bil_times_l, mult_IZR. unfold K; lra. }
    cbv zeta in SM, SD. rewrite NF in SM, SD.
    set (sm := sum n _) in SM. set (sd := sum n _) in SD.
    assert (NB : sm + sd <= IZR (total (norms c)) * unit).
    { rewrite <- (lin_const (norms c) unit), (lin_as_sum _ n _ (proj1 (Nat.leb_le _ _) NL)).
      unfold sm, sd. rewrite <- sum_plus. apply Rminus_le.
      assert (Z : 0 <= sum n (fun j => IZR (nth j (norms c) 0%Z) * unit + -1 *
        (IZR (nth j (norms c) 0%Z) * bil (own_mean j) (own_mean j) bm
        + IZR (nth j (norms c) 0%Z) * bil (point j) (point j) bd)));
        [|rewrite sum_plus, sum_times in Z; lra].
      apply sum_pos; intros j Hj.
      assert (0 <= IZR (nth j (norms c) 0%Z)).
      { apply IZR_le. destruct (nth_in_or_default j (norms c) 0%Z) as [h| ->]; [|lia].
        rewrite forallb_forall in NN. apply Z.leb_le, NN, h. }
      pose proof (prod_is N some l xs x0 o flat _ _ _ _ (Ow j) (Ow j)) as PO.
      unfold prod in PO; cbn [fst snd] in PO; fold bm bd in PO.
      destruct (bounded j Hj) as [h|h].
      - rewrite h. destruct j; simpl; lra.
      - rewrite PO in h. nra. }
    assert (ST : bil [(kappa c d * near c)%Z] [1%Z] bm <= K * (IZR (near c) * unit)).
    { unfold bil; simpl. rewrite mult_IZR. fold K. unfold bm, checker.bm; simpl.
      apply Z.leb_le, IZR_le in NP. assert (0 <= K * IZR (near c)) by (apply Rmult_le_pos; lra).
      nra. }
    assert (HT : bil [(kappa c d * heterogeneity c)%Z] [1%Z] bd <=
      K * (IZR (heterogeneity c) * (Q2R (spread c) * Q2R (spread c)) * unit)).
    { unfold bil; simpl. rewrite mult_IZR. fold K. unfold bd, checker.bd; simpl. fold u.
      apply Z.leb_le, IZR_le in HP.
      destruct spreads as [h|h]; [rewrite h; lra|].
      assert (0 <= K * IZR (heterogeneity c)) by (apply Rmult_le_pos; lra). nra. }
    apply Qle_bool_imp_le, Qle_Rle in BO.
    assert (Z2R : forall z, Q2R (inject_Z z) = IZR z) by (intros; unfold Q2R; simpl; lra).
    rewrite Q2R_plus, !Q2R_mult, !Z2R, plus_IZR in BO.
    apply (Rmult_le_compat_r unit _ _ unit_pos) in BO.
    apply (Rmult_le_compat_l K _ _ (Rlt_le _ _ K_pos)) in BO.
    apply (Rmult_le_compat_l K _ _ (Rlt_le _ _ K_pos)) in NB.
    set (zz := Q2R (spread c) * Q2R (spread c)) in *.
    assert (PF : forall P, fine c d P = true ->
      form (of_products c d fst P) bm + form (of_products c d snd P) bd = K * (IZR DD * summed P)).
    { assert (R : forall v, earlier n v && divides d (fst (normal (all_normal [] (places c)) v)) &&
          divides d (snd (normal (all_normal [] (places c)) v)) = true ->
        is_rows (fun k => scale (IZR d) (den N l xs x0 pt o v k))
          (rows_of c d fst v, rows_of c d snd v)).
      { intros v V k w Hk. apply andb_prop in V as [V V2]. apply andb_prop in V as [V0 V1].
        rewrite inner_scale. unfold rows_of. cbn [fst snd].
        rewrite (whole_value d _ V1), (whole_value d _ V2).
        rewrite (normal_is N some l xs x0 pt o flat (all_normal [] (places c)) v);
          [apply Rmult_plus_distr_l | rewrite all_normal_length; exact V0 | | exact Hk].
        intros i Hi. rewrite all_normal_length in Hi.
        apply (all_normal_are N some l l_pos xs x0 pt o per per_is flat (places c) [] W here
          (fun i h => False_rect _ (Nat.nlt_0_r i h)) i Hi). }
      induction P as [|[q [a b]] P IHP]; intros V; [simpl; lra|].
      unfold fine in V. simpl in V. apply andb_prop in V as [V V4]. apply andb_prop in V as [V1 V2].
      apply andb_prop in V4 as [V4 V5]. apply andb_prop in V4 as [Va Vb].
      specialize (IHP (proj2 (andb_true_iff _ _) (conj V2 V5))).
      change (of_products c d ?f ((q, (a, b)) :: P)) with (add_matrix (outer (times (2 * e * md *
        whole DD q) (rows_of c d f a)) (rows_of c d f b)) (of_products c d f P)).
      rewrite !form_add, !form_outer, !bil_times_l, !mult_IZR, (whole_is DD q V1).
      pose proof (prod_is N some l xs x0 o flat _ _ _ _ (R a Va) (R b Vb)) as PO.
      unfold prod in PO; cbn [fst snd] in PO; fold bm bd in PO.
      rewrite (mean_ext N _ (fun k => IZR d * IZR d * inner (den N l xs x0 pt o a k)
        (den N l xs x0 pt o b k))) in PO by (intros; rewrite inner_scale, inner_scale_r; lra).
      rewrite mean_times in PO. simpl summed. fold (summed P).
      set (mp := mean N (fun k => inner (den N l xs x0 pt o a k) (den N l xs x0 pt o b k))) in *.
      assert (F : K * (IZR DD * (Q2R q * mp)) =
        2 * IZR e * IZR md * (IZR DD * Q2R q) * (IZR d * IZR d * mp)) by (rewrite K_is; lra).
      rewrite PO in F. lra. }
    assert (Neg : forall P, summed (map (fun p => (- fst p, snd p)%Q) P) = - summed P).
    { induction P as [|pp P IHP]; [simpl; lra|]. cbn [map].
      change (summed (?x :: ?y)) with (Q2R (fst x) * mean N (fun k => inner
        (den N l xs x0 pt o (fst (snd x)) k) (den N l xs x0 pt o (snd (snd x)) k)) + summed y).
      cbn [fst snd]. rewrite IHP, Q2R_opp. lra. }
    assert (App : forall P P2, summed (P ++ P2) = summed P + summed P2).
    { induction P as [|pp P IHP]; intros P2; [simpl; lra|]. cbn [app].
      change (summed (?x :: ?y)) with (Q2R (fst x) * mean N (fun k => inner
        (den N l xs x0 pt o (fst (snd x)) k) (den N l xs x0 pt o (snd (snd x)) k)) + summed y).
      rewrite IHP; lra. }
    assert (FL : forall P P2, in_form c d P P2 = true -> (forall x, In x P2 -> 0 <= mean N (fun k =>
        inner (den N l xs x0 pt o (fst (snd x)) k) (den N l xs x0 pt o (snd (snd x)) k))) ->
      form (of_products c d fst (map (fun p => (- fst p, snd p)%Q) (P ++ P2))) bm +
      form (of_products c d snd (map (fun p => (- fst p, snd p)%Q) (P ++ P2))) bd
        <= - (K * (IZR DD * summed P))).
    { intros P P2 V known. apply andb_prop in V as [V1 V2]. rewrite (PF _ V1), Neg, App.
      assert (M : 0 <= summed P2).
      { clear -known V2. induction P2 as [|pp P IHP]; [simpl; lra|].
        change (summed (?x :: ?y)) with (Q2R (fst x) * mean N (fun k => inner
          (den N l xs x0 pt o (fst (snd x)) k) (den N l xs x0 pt o (snd (snd x)) k)) + summed y).
        simpl in V2; apply andb_prop in V2 as [Q1 Q2]. apply Qle_bool_imp_le, Qle_Rle in Q1.
        rewrite Q2R_0 in Q1. specialize (IHP Q2 (fun p h => known p (or_intror h))).
        pose proof (known pp (or_introl eq_refl)) as B. nra. }
      assert (0 <= K * (IZR DD * summed P2)) by (repeat apply Rmult_le_pos; lra). lra. }
    assert (G : K * (IZR DD * measured) <= K * (IZR DD * Q2R (bound c) * unit)).
    { eapply Rle_trans; [|exact BO].
      assert (T : K * (IZR DD * measured) <= K * (IZR (near c) * unit)
        + K * (IZR (heterogeneity c) * zz * unit) + K * (IZR (total (norms c)) * unit)); [|lra].
      clear BO. unfold measured. fold DD.
      destruct goal as [w|i|i|l1 l2|w l1 l2]; simpl in IR, SM, SD; cbn [weights] in S.
      - replace (IZR DD * (/ IZR DD * lin w (fun i => mean N (val i) - mean N (val O))))
          with (lin w (fun i => mean N (val i) - mean N (val O))) by (field; lra).
        rewrite (lin_ext _ _ (fun i => vm i + - vm O)) by reflexivity.
        rewrite lin_sum, lin_const. rewrite lin_plus in S; simpl lin in S.
        rewrite opp_IZR in S. lra.
      - apply Nat.ltb_lt in IR. rewrite !form_outer, !bil_times_l, !opp_IZR, !mult_IZR in SM, SD.
        pose proof (prod_is N some l xs x0 o flat _ _ _ _ (A i IR) (A i IR)) as PO.
        unfold prod in PO; cbn [fst snd] in PO; fold bm bd in PO.
        rewrite (mean_ext N _ (fun k => IZR d * IZR d * inner (p i k) (p i k))) in PO
          by (intros; rewrite inner_scale, inner_scale_r; lra).
        rewrite mean_times in PO.
        set (mp := mean N (fun k => inner (p i k) (p i k))) in *.
        assert (F : K * (IZR DD * mp) = 2 * IZR e * IZR md * IZR DD * (IZR d * IZR d * mp))
          by (rewrite K_is; lra).
        rewrite F, PO. simpl lin in S. lra.
      - rewrite form_outer, bil_times_l, opp_IZR, mult_IZR in SM.
        fold K in SM. assert (Z : bil (own_mean i) (own_mean i) bm = inner (vmean N (u i)) (vmean N
          (u i))).
        { destruct i as [|i]; [simpl; unfold bil; simpl; symmetry; rewrite inner_vmean;
            apply flat|].
          change (own_mean (Datatypes.S i)) with (point (Datatypes.S i)). unfold bil.
          rewrite !lin_point. reflexivity. }
        rewrite Z in SM. simpl lin in S. lra.
      - apply FL in IR; [simpl lin in S; lra | exact less_known].
      - apply andb_prop in IR as [_ IR]. apply FL in IR; [|exact less_known].
        rewrite Rmult_plus_distr_l.
        replace (IZR DD * (/ IZR DD * lin w (fun i => mean N (val i) - mean N (val O))))
          with (lin w (fun i => mean N (val i) - mean N (val O))) by (field; lra).
        rewrite (lin_ext _ _ (fun i => vm i + - vm O)) by reflexivity.
        rewrite lin_sum, lin_const. rewrite lin_plus in S; simpl lin in S.
        rewrite opp_IZR in S. lra. }
    apply Rmult_le_reg_l with (K * IZR DD); [apply Rmult_lt_0_compat; assumption | lra].
  Qed.
  Theorem checked : check smooth c goal = true -> measured <= Q2R (bound c) * unit.
  Proof.
    intros C. apply andb_prop in C as [C D]. apply (checked_means C).
    apply (semidefinite_sound _ _ (gram_deviations N some l o) D).
  Qed.
  Theorem checked_alone : N = 1%nat -> check_alone smooth c goal = true ->
    measured <= Q2R (bound c) * unit.
  Proof.
    intros N1 C. apply (checked_means C). right. symmetry.
    assert (only : forall v, mean N v = v O)
      by (intros; unfold mean; rewrite N1; simpl; rewrite Rinv_1; lra).
    assert (Z : forall i j, bd N l o i j = 0).
    { intros i j. unfold bd. rewrite only.
      rewrite <- (only (fun k => inner (D N l o i k) (D N l o j O))).
      apply (mean_deviation N some l o flat). }
    generalize dependent (bd N l o). intros b Z.
    induction (deviations smooth c goal (least_common c goal)) as [|r M IH] in b, Z |- *;
      simpl; [reflexivity|].
    rewrite (lin_nothing r (b O)) by (intros; apply Z).
    rewrite IH by (intros; apply Z). lra.
  Qed.
  Theorem checked_either : check smooth c goal = true \/
    N = 1%nat /\ check_alone smooth c goal = true -> measured <= Q2R (bound c) * unit.
  Proof. intros [C|[N1 C]]; [apply checked, C | apply checked_alone; assumption]. Qed.
End Sound.
