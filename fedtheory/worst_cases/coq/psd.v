(** A verified test for a symmetric matrix of integers being positive semidefinite.

    Rows are lists, of which missing entries are 0. [gram] says of numbers b i j that they are inner
    products, as far as is needed: symmetric, and no combination of the vectors has a square below
    0. The upper triangle of a matrix is eliminated row by row without fractions. Entries may be
    divided at each pivot and rounded down: for each entry that is not divisible the two diagonal
    entries beside it are lowered by 1, so that what the rounding takes is diagonally dominant. *)
From Coq Require Import Reals ZArith List Lra Lia.
Import ListNotations.
Open Scope R_scope.

(** * Rows *)
Fixpoint lin (r : list Z) (u : nat -> R) : R :=
  match r with [] => 0 | z :: t => IZR z * u O + lin t (fun i => u (S i)) end.
Definition bil (r s : list Z) (b : nat -> nat -> R) : R := lin r (fun i => lin s (b i)).
Definition times (z : Z) (r : list Z) : list Z := map (Z.mul z) r.
Fixpoint plus (r s : list Z) : list Z :=
  match r, s with [], _ => s | _, [] => r | x :: r', y :: s' => (x + y)%Z :: plus r' s' end.

Lemma lin_ext r : forall u v, (forall i, u i = v i) -> lin r u = lin r v.
Proof. induction r; simpl; intros u v H; [reflexivity | rewrite H, (IHr _ (fun i => v (S i)));
  auto]. Qed.
Lemma lin_plus r : forall s u, lin (plus r s) u = lin r u + lin s u.
Proof.
  induction r as [|x r IH]; intros s u; simpl; [lra|].
  destruct s as [|y s]; simpl; [lra | rewrite IH, plus_IZR; lra].
Qed.
Lemma lin_times z r : forall u, lin (times z r) u = IZR z * lin r u.
Proof.
  induction r as [|x r IH]; intros u; simpl; [lra|]. fold (times z r). rewrite IH, mult_IZR; lra.
Qed.
Lemma lin_sum r : forall u v, lin r (fun i => u i + v i) = lin r u + lin r v.
Proof.
  induction r as [|x r IH]; intros u v; simpl; [lra|].
  rewrite (IH (fun i => u (S i)) (fun i => v (S i))); lra.
Qed.
Lemma lin_scale r : forall a u, lin r (fun i => a * u i) = a * lin r u.
Proof.
  induction r as [|x r IH]; intros a u; simpl; [lra|]. rewrite (IH a (fun i => u (S i))); lra.
Qed.
Lemma lin_zero r : forall u, forallb (Z.eqb 0) r = true -> lin r u = 0.
Proof.
  induction r as [|x r IH]; intros u H; simpl in *; [reflexivity|].
  apply andb_prop in H as [H1 H2]; apply (proj1 (Z.eqb_eq 0 x)) in H1; subst x.
  rewrite IH by assumption; lra.
Qed.
Lemma lin_pos r : forall u, forallb (Z.leb 0) r = true -> (forall i, 0 <= u i) -> 0 <= lin r u.
Proof.
  induction r as [|x r IH]; intros u H U; simpl in *; [lra|].
  apply andb_prop in H as [H1 H2]; apply Z.leb_le, IZR_le in H1.
  specialize (IH (fun i => u (S i)) H2 (fun i => U (S i))); specialize (U O); nra.
Qed.
Lemma lin_swap r : forall s b, lin r (fun i => lin s (b i)) = lin s (fun j => lin r
  (fun i => b i j)).
Proof.
  induction r as [|x r IH]; intros s b; simpl.
  - induction s in b |- *; simpl; [reflexivity|].
    rewrite <- (IHs (fun i j => b i (S j))); lra.
  - rewrite (IH s (fun i => b (S i))), lin_sum, lin_scale; reflexivity.
Qed.

(** * Matrices *)
Definition gram (b : nat -> nat -> R) : Prop :=
  (forall i j, b i j = b j i) /\ forall r, 0 <= bil r r b.
Definition next (b : nat -> nat -> R) (i j : nat) : R := b (S i) (S j).
Fixpoint form (M : list (list Z)) (b : nat -> nat -> R) : R :=
  match M with [] => 0 | r :: t => lin r (b O) + form t (fun i => b (S i)) end.
Fixpoint add_matrix (M P : list (list Z)) : list (list Z) :=
  match M, P with [], _ => P | _, [] => M | r :: M', s :: P' => plus r s :: add_matrix M' P' end.
Definition outer (r s : list Z) : list (list Z) :=
  map (fun z => if Z.eqb z 0 then [] else times z s) r.

Lemma form_add M : forall P b, form (add_matrix M P) b = form M b + form P b.
Proof.
  induction M as [|r M IH]; intros P b; simpl; [lra|].
  destruct P as [|s P]; simpl; [lra | rewrite IH, lin_plus; lra].
Qed.
Lemma form_outer r : forall s b, form (outer r s) b = bil r s b.
Proof.
  unfold bil; induction r as [|z r IH]; intros s b; simpl; [reflexivity|].
  fold (outer r s); rewrite IH. destruct (Z.eqb z 0) eqn:e; simpl.
  - apply Z.eqb_eq in e; subst z; lra.
  - rewrite lin_times; reflexivity.
Qed.

(** The form of an upper triangle: every entry beside the diagonal stands for two. *)
Definition row_form (r : list Z) (b : nat -> nat -> R) : R :=
  match r with [] => 0 | p :: r' => IZR p * b O O + 2 * lin r' (fun j => b O (S j)) end.
Fixpoint tri (T : list (list Z)) (b : nat -> nat -> R) : R :=
  match T with [] => 0 | r :: t => row_form r b + tri t (next b) end.

(** The upper triangle of twice a matrix that need not be symmetric. *)
Fixpoint triangle (n : nat) (M : list (list Z)) : list (list Z) :=
  match n, M with
  | S m, r :: t => match r with
    | [] => (0%Z :: map (hd 0%Z) t) :: triangle m (map (@tl Z) t)
    | p :: r' => ((2 * p)%Z :: plus r' (map (hd 0%Z) t)) :: triangle m (map (@tl Z) t)
    end
  | _, _ => []
  end.
Lemma form_columns M : forall b,
  form M b = lin (map (hd 0%Z) M) (fun i => b i O) + form (map (@tl Z) M) (fun i j => b i (S j)).
Proof.
  induction M as [|r M IH]; intros b; simpl; [lra|].
  rewrite (IH (fun i => b (S i))). destruct r; simpl; lra.
Qed.
Lemma triangle_form n : forall M b, (forall i j, b i j = b j i) -> (length M <= n)%nat ->
  tri (triangle n M) b = 2 * form M b.
Proof.
  induction n as [|n IH]; intros M b B H; destruct M as [|r M];
    cbn [triangle tri form length] in *; try lra; try lia.
  assert (L : (length (map (@tl Z) M) <= n)%nat) by (rewrite map_length; lia).
  assert (N : forall i j, next b i j = next b j i) by (intros; apply B).
  rewrite (form_columns M). specialize (IH _ (next b) N L).
  unfold next in IH at 2. rewrite (lin_ext _ (fun i => b (S i) O) (fun i => b O (S i))) by (intros;
    apply B).
  destruct r as [|p r]; cbn [tri row_form hd tl lin]; rewrite IH, ?lin_plus, ?mult_IZR; lra.
Qed.

(** * Elimination *)
Fixpoint schur (p : Z) (T : list (list Z)) (r : list Z) : list (list Z) :=
  match r with
  | [] => map (times p) T
  | c :: r' =>
      let (row, rest) := match T with [] => ([], []) | row :: t => (row, t) end in
      (if Z.eqb c 0 then times p row else plus (times p row) (times (- c) r)) :: schur p rest r'
  end.
Lemma row_form_plus r s b : row_form (plus r s) b = row_form r b + row_form s b.
Proof. destruct r, s; simpl; rewrite ?plus_IZR, ?lin_plus; lra. Qed.
Lemma row_form_times z r b : row_form (times z r) b = IZR z * row_form r b.
Proof. destruct r; simpl; [lra|]. fold (times z r); rewrite mult_IZR, lin_times; lra. Qed.
Lemma tri_times p T : forall b, tri (map (times p) T) b = IZR p * tri T b.
Proof. induction T as [|r T IH]; intros b; simpl; [lra | rewrite row_form_times, IH; lra]. Qed.
Lemma bil_cons c r b : (forall i j, b i j = b j i) ->
  bil (c :: r) (c :: r) b =
  IZR c * IZR c * b O O + 2 * IZR c * lin r (fun j => b O (S j)) + bil r r (next b).
Proof.
  intros B; unfold bil; simpl. rewrite lin_sum.
  rewrite (lin_ext r (fun i => IZR c * b (S i) O) (fun i => IZR c * b O (S i)))
    by (intros; rewrite B; reflexivity).
  rewrite lin_scale; unfold next; lra.
Qed.
Lemma schur_form p r : forall T b, (forall i j, b i j = b j i) ->
  tri (schur p T r) b = IZR p * tri T b - bil r r b.
Proof.
  induction r as [|c r IH]; intros T b B.
  - simpl; rewrite tri_times; unfold bil; simpl; lra.
  - assert (N : forall i j, next b i j = next b j i) by (intros; apply B).
    assert (R : forall row, row_form (if Z.eqb c 0 then times p row
        else plus (times p row) (times (- c) (c :: r))) b =
      IZR p * row_form row b - IZR c * IZR c * b O O - 2 * IZR c * lin r (fun j => b O (S j))).
    { intros row; destruct (Z.eqb c 0) eqn:e.
      - apply Z.eqb_eq in e; subst c; rewrite row_form_times; lra.
      - rewrite row_form_plus, !row_form_times, opp_IZR; simpl; lra. }
    rewrite (bil_cons c r b B). destruct T as [|row T]; cbn [schur tri].
    + rewrite (R []), IH by assumption; simpl; lra.
    + rewrite R, IH by assumption; lra.
Qed.

(** Division of the entries, rounded down: by 2 to a power, or by a number. *)
Inductive divisor := Power (k : Z) | By (q : Z).
Definition size (d : divisor) : Z := match d with Power k => (2 ^ k)%Z | By q => q end.
Definition quotient (d : divisor) (x : Z) : Z :=
  match d with Power k => Z.shiftr x k | By q => Z.div x q end.
Definition missed (d : divisor) (x y : Z) : Z :=
  match d with
  | Power k => if Z.eqb (Z.shiftl y k) x then 0 else 1
  | By q => if Z.eqb (q * y) x then 0 else 1
  end.
Definition valid (d : divisor) : bool := match d with Power k => Z.leb 0 k | By q => Z.ltb 0 q end.
Fixpoint total (r : list Z) : Z := match r with [] => 0 | x :: t => x + total t end.
Fixpoint rounded (d : divisor) (lowered : list Z) (T : list (list Z)) : list (list Z) :=
  match T with
  | [] => map (fun c => [(- c)%Z]) lowered
  | [] :: t => ((- hd 0 lowered)%Z :: []) :: rounded d (tl lowered) t
  | (x :: r) :: t =>
      let q := map (quotient d) r in
      let m := map (fun x => missed d x (quotient d x)) r in
      ((quotient d x - hd 0 lowered - total m)%Z :: q) :: rounded d (plus (tl lowered) m) t
  end.

Lemma valid_size d : valid d = true -> (0 < size d)%Z.
Proof. destruct d; simpl; intros H; [apply Z.leb_le in H; apply Z.pow_pos_nonneg; lia | lia]. Qed.
Lemma quotient_bounds d x : valid d = true ->
  (size d * quotient d x <= x < size d * quotient d x + size d)%Z.
Proof.
  intros V; pose proof (valid_size d V) as P.
  assert (Q : quotient d x = (x / size d)%Z).
  { destruct d; simpl; [apply Z.shiftr_div_pow2; simpl in V; lia | reflexivity]. }
  rewrite Q; pose proof (Z.mul_div_le x (size d) P); pose proof (Z.mul_succ_div_gt x (size d) P);
    lia.
Qed.
Lemma missed_cases d x : valid d = true ->
  (missed d x (quotient d x) = 0 /\ x = size d * quotient d x)%Z \/
  (missed d x (quotient d x) = 1)%Z.
Proof.
  intros V; destruct d as [k|q]; simpl in *.
  - destruct (Z.eqb_spec (Z.shiftl (Z.shiftr x k) k) x) as [e|]; [left; split;
      [reflexivity|] | right; reflexivity].
    rewrite Z.shiftl_mul_pow2 in e by lia; lia.
  - destruct (Z.eqb_spec (q * (x / q)) x) as [e|]; [left; split; [reflexivity|lia] | right;
      reflexivity].
Qed.
Lemma between b : gram b -> forall i j, Rabs (2 * b i j) <= b i i + b j j.
Proof.
  intros [B G].
  assert (K : forall s j, bil (repeat 0%Z j ++ [s]) (repeat 0%Z j ++ [s]) b = IZR s * IZR s * b j
    j).
  { intros s j. unfold bil.
    assert (I : forall (u : nat -> R), lin (repeat 0%Z j ++ [s]) u = IZR s * u j).
    { induction j as [|j IH]; intros u; simpl; [lra | rewrite (IH (fun i => u (S i))); lra]. }
    rewrite I, I; lra. }
  assert (D : forall j, 0 <= b j j) by (intros j; pose proof (G (repeat 0%Z j ++ [1%Z])) as H;
    rewrite K in H; lra).
  assert (P : forall i j s, 0 <= b i i + IZR s * IZR s * b j j + 2 * IZR s * b i j).
  { intros i j s. set (e := fun j s => repeat 0%Z j ++ [s]).
    assert (I : forall j s (u : nat -> R), lin (e j s) u = IZR s * u j).
    { intros j'; induction j' as [|j' IH]; intros s' u; simpl; [lra | unfold e in IH;
        rewrite (IH s' (fun i => u (S i))); lra]. }
    pose proof (G (plus (e i 1%Z) (e j s))) as H. unfold bil in H.
    rewrite lin_plus, !I in H. rewrite !lin_plus, !I in H. rewrite (B j i) in H. lra. }
  intros i j; apply Rabs_le; pose proof (P i j 1%Z); pose proof (P i j (-1)%Z); lra.
Qed.
Lemma gram_diagonal b : gram b -> forall i, 0 <= b i i.
Proof. intros G i; pose proof (between b G i i) as H; pose proof (Rabs_pos (2 * b i i)); lra. Qed.
Lemma gram_next b : gram b -> gram (next b).
Proof.
  intros [B G]; split; [intros; apply B | intros r]. specialize (G (0%Z :: r)).
  rewrite bil_cons in G by assumption; lra.
Qed.

Lemma row_rounded d r : valid d = true -> forall (u w : nat -> R) (c : R),
  (forall j, Rabs (2 * u j) <= c + w j) ->
  IZR (size d) * (2 * lin (map (quotient d) r) u) <=
  2 * lin r u + IZR (size d) *
    (lin (map (fun x => missed d x (quotient d x)) r) w
     + IZR (total (map (fun x => missed d x (quotient d x)) r)) * c).
Proof.
  intros V. induction r as [|x r IH]; intros u w c H; simpl; [lra|].
  specialize (IH (fun i => u (S i)) (fun i => w (S i)) c (fun j => H (S j))).
  rewrite plus_IZR.
  pose proof (quotient_bounds d x V) as [Q1 Q2]. pose proof (valid_size d V) as P.
  apply IZR_le in Q1; apply IZR_lt in Q2, P. rewrite plus_IZR, mult_IZR in Q2;
    rewrite mult_IZR in Q1.
  specialize (H O). pose proof (Rabs_pos (2 * u O)). 
  assert (E : IZR (size d) * (2 * (IZR (quotient d x) * u O)) <=
    2 * (IZR x * u O) + IZR (size d) * (IZR (missed d x (quotient d x)) * (w O + c))).
  { destruct (missed_cases d x V) as [[-> e]| ->].
    - apply (f_equal IZR) in e; rewrite mult_IZR in e; rewrite e; lra.
    - assert (X : - (c + w O) <= 2 * u O) by (pose proof (Rle_abs (- (2 * u O))) as A;
        rewrite Rabs_Ropp in A; lra).
      set (q := IZR (size d)) in *; set (y := IZR (quotient d x)) in *.
      assert (0 <= (IZR x - q * y) * (c + w O + 2 * u O)) by (apply Rmult_le_pos; lra).
      assert (0 <= (q - (IZR x - q * y)) * (c + w O)) by (apply Rmult_le_pos; lra). lra. }
  lra.
Qed.
Lemma lowered_form l : forall b, tri (map (fun c => [(- c)%Z]) l) b = - lin l (fun i => b i i).
Proof. induction l as [|c l IH]; intros b; simpl; [lra | rewrite IH, opp_IZR; unfold next; lra].
Qed.
Lemma lin_head_tail l u : lin l u = IZR (hd 0%Z l) * u O + lin (tl l) (fun i => u (S i)).
Proof. destruct l; simpl; lra. Qed.
Lemma rounded_form d : valid d = true -> forall T lowered b, gram b ->
  IZR (size d) * tri (rounded d lowered T) b <=
  tri T b - IZR (size d) * lin lowered (fun i => b i i).
Proof.
  intros V. pose proof (valid_size d V) as P; apply IZR_lt in P.
  induction T as [|row T IH]; intros l b G; simpl.
  - destruct l as [|c l]; simpl; [lra|]. rewrite lowered_form, opp_IZR. unfold next; lra.
  - pose proof (gram_diagonal b G O) as D0. rewrite (lin_head_tail l).
    destruct row as [|x r]; simpl.
    + specialize (IH (tl l) (next b) (gram_next b G)). unfold next in IH at 3. rewrite opp_IZR. lra.
    + set (m := map (fun x => missed d x (quotient d x)) r).
      specialize (IH (plus (tl l) m) (next b) (gram_next b G)). unfold next in IH at 3.
      rewrite lin_plus in IH.
      pose proof (row_rounded d r V (fun j => b O (S j)) (fun j => b (S j) (S j)) (b O O)
        (fun j => between b G O (S j))) as R. fold m in R.
      pose proof (quotient_bounds d x V) as [Q _]. apply IZR_le in Q; rewrite mult_IZR in Q.
      rewrite !minus_IZR.
      assert (IZR (size d) * IZR (quotient d x) * b O O <= IZR x * b O O)
        by (apply Rmult_le_compat_r; assumption).
      lra.
Qed.

(** The test. [divide] proposes the divisor after a pivot, from this pivot and the one before. *)
Fixpoint psd (divide : Z -> Z -> divisor) (n : nat) (before : Z) (T : list (list Z)) : bool :=
  match n, T with
  | _, [] => true
  | O, _ => false
  | S m, [] :: t => psd divide m before t
  | S m, (p :: r) :: t =>
      if Z.ltb 0 p then
        let d := divide before p in
        if valid d then psd divide m p (rounded d [] (schur p t r)) else false
      else if Z.eqb p 0 then if forallb (Z.eqb 0) r then psd divide m before t else false else false
  end.
Theorem psd_sound divide n : forall before T b,
  gram b -> psd divide n before T = true -> 0 <= tri T b.
Proof.
  induction n as [|n IH]; intros before T b G H; destruct T as [|row T]; simpl in H |- *; try lra;
    try discriminate.
  pose proof (gram_next b G) as N.
  destruct row as [|p r]; simpl; [specialize (IH _ _ _ N H); lra|].
  destruct (Z.ltb_spec 0 p) as [P|P].
  - destruct (valid (divide before p)) eqn:V; [|discriminate].
    specialize (IH _ _ _ N H).
    pose proof (rounded_form _ V (schur p T r) [] (next b) N) as R. simpl in R.
    rewrite schur_form in R by apply N.
    pose proof (valid_size _ V) as Q; apply IZR_lt in Q, P.
    pose proof (proj2 G (p :: r)) as Sq. rewrite bil_cons in Sq by apply G.
    assert (0 <= IZR (size (divide before p)) * tri (rounded (divide before p) [] (schur p T r))
      (next b))
      by (apply Rmult_le_pos; lra).
    set (v := IZR p * b O O + 2 * lin r (fun j => b O (S j)) + tri T (next b)).
    assert (0 <= IZR p * v) by (unfold v; lra).
    apply Rmult_le_reg_l with (IZR p); [assumption | lra].
  - destruct (Z.eqb_spec p 0) as [->|]; [|discriminate].
    destruct (forallb (Z.eqb 0) r) eqn:Z0; [|discriminate].
    rewrite (lin_zero r _ Z0). specialize (IH _ _ _ N H). lra.
Qed.

(** Integers of bounded length first, exact ones (Bareiss) if they do not decide. *)
Definition keep_size (_ p : Z) : divisor := Power (Z.shiftr (Z.log2 (p * p) + 1) 1).
Definition exactly (before _ : Z) : divisor := By before.
Definition semidefinite (M : list (list Z)) : bool :=
  let T := triangle (length M) M in
  if psd keep_size (length M) 1 (map (times (2 ^ 32)) T) then true
  else psd exactly (length M) 1 T.
Theorem semidefinite_sound M b : gram b -> semidefinite M = true -> 0 <= form M b.
Proof.
  intros G H. unfold semidefinite in H.
  assert (F : tri (triangle (length M) M) b = 2 * form M b)
    by (apply triangle_form; [apply G | reflexivity]).
  destruct (psd keep_size _ _ _) eqn:K.
  - apply (psd_sound _ _ _ _ b G) in K. rewrite tri_times in K.
    assert (0 < IZR (2 ^ 32)) by (apply IZR_lt; reflexivity).
    assert (0 <= tri (triangle (length M) M) b) by (apply Rmult_le_reg_l with (IZR (2 ^ 32)); lra).
    lra.
  - apply (psd_sound _ _ _ _ b G) in H. lra.
Qed.
