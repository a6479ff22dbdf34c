(** The points of each defined method are those of its certificates.

    [..._places] are a method's places in turn, [..._points] its points, [..._placed] that they
    agree. Point 0 is the optimum, the last one the last model. *)
From Coq Require Import Reals QArith Qreals ZArith List Lra Lia.
From Fedtheory Require Export methods_defined bounds.
Import ListNotations.
Open Scope R_scope.

Lemma vmean_ext {E : space} N (u v : nat -> E) : (forall k, (k < N)%nat -> u k = v k) ->
  vmean N u = vmean N v.
Proof.
  intros H; unfold vmean; f_equal. induction N as [|n IH]; simpl; [reflexivity|].
  rewrite IH, H by auto; reflexivity.
Qed.
(** Places given by a function of the index. *)
Definition places_by (h : nat -> vec) (n : nat) : list vec := Opt :: map h (seq 1 n).
Lemma placed_by {E : space} N l (xs x0 : E) pt o per h n : (forall k, pt O k = xs) ->
  (forall i k, (1 <= i <= n)%nat -> (k < N)%nat -> pt i k = tell N l xs x0 pt o per false
    (h i) k) ->
  all_placed N l xs x0 pt o per 0 (places_by h n).
Proof.
  intros H0 H; split; [intros k w _; simpl; rewrite H0; reflexivity|].
  assert (A : forall m a, (1 <= a)%nat -> (a + m <= S n)%nat ->
    all_placed N l xs x0 pt o per a (map h (seq a m))).
  { induction m as [|m IH]; intros a Ha Hm; simpl; [exact I|]. split; [|apply IH; lia].
    intros k w Hk; rewrite H by first [assumption | lia]; reflexivity. }
  apply A; lia.
Qed.
(** Index [S j] is step j mod K of round j / K. *)
Lemma next_index K j : (1 <= K)%nat ->
  (S j mod K = 0 /\ j mod K = K - 1 /\ S j / K = S (j / K))%nat \/
  (S j mod K = S (j mod K) /\ S j / K = j / K)%nat.
Proof.
  intros HK. pose proof (Nat.div_mod j K ltac:(lia)) as D.
  pose proof (Nat.mod_upper_bound j K ltac:(lia)) as B.
  destruct (Nat.eq_dec (j mod K) (K - 1)) as [e|n].
  - left. assert (E : S j = (S (j / K) * K + 0)%nat) by nia.
    split; [|split; [exact e|]].
    + symmetry; apply (Nat.mod_unique _ _ (S (j / K))); lia.
    + symmetry; apply (Nat.div_unique _ _ _ 0); lia.
  - right. split; [symmetry; apply (Nat.mod_unique _ _ (j / K)) | symmetry;
      apply (Nat.div_unique _ _ _ (S (j mod K)))]; lia.
Qed.

(** * FedAvg *)
Definition fedavg_place (q : Q) (K i : nat) : vec :=
  match i with
  | O => Opt | 1%nat => Start
  | S j => let p := Minus (At j) (Step q (Own j)) in
      if Nat.eqb (j mod K) 0 then Mean p else p
  end.
Definition fedavg_places (q : Q) (K T : nat) : list vec := places_by (fedavg_place q K) (S (T * K)).
Section FedAvg.
  Context {E : space} (N K T : nat) (q : Q) (L : R) (g : nat -> E -> E) (xs x0 : E).
  Let step := num q / L.
  Definition fedavg_points (i k : nat) : E :=
    match i with
    | O => xs | S j => descent (num q / L) g k (fedavg N (num q / L) K g x0 (j / K)) (j mod K)
    end.
  Lemma fedavg_placed : (1 <= K)%nat -> all_placed N L xs x0 fedavg_points
    (fun i k => g k (fedavg_points i k)) (fun q => q / L) 0 (fedavg_places q K T).
  Proof.
    intros HK. apply placed_by; [reflexivity|]. intros i k Hi Hk.
    destruct i as [|[|j]]; [lia | simpl; rewrite Nat.div_0_l, Nat.mod_0_l by lia; reflexivity |].
    unfold fedavg_place. destruct (next_index K j HK) as [(e & f & h)|(e & h)].
    - rewrite e. unfold fedavg_points at 1. rewrite e, h. simpl.
      apply vmean_ext; intros k' _.
      transitivity (descent (num q / L) g k' (fedavg N (num q / L) K g x0 (j / K)) (S (j mod K)));
        [f_equal; lia | reflexivity].
    - assert (Nat.eqb (S j mod K) 0 = false) as -> by (rewrite e; reflexivity).
      unfold fedavg_points at 1. rewrite e, h. reflexivity.
  Qed.
  Lemma fedavg_last k : (1 <= K)%nat -> fedavg_points (S (T * K)) k = fedavg N (num q / L) K g x0 T.
  Proof.
    intros HK; unfold fedavg_points. rewrite Nat.div_mul, Nat.mod_mul by lia. reflexivity.
  Qed.
End FedAvg.

(** * SCAFFOLD *)
Fixpoint own_sum (a n : nat) : vec :=
  match n with O => Zero | S m => Plus (own_sum a m) (Own (a + m)) end.
(** The control variates of round t: the mean of the client's gradients in the round before, or the
    gradient at its model. *)
Definition control (I : bool) (K t : nat) : vec :=
  match t with
  | O => Zero
  | S s => if I then Own (S (s * K)) else Times (1 # Pos.of_nat K) (own_sum (S (s * K)) K)
  end.
Definition scaffold_place (I : bool) (q : Q) (K i : nat) : vec :=
  match i with
  | O => Opt | 1%nat => Start
  | S j => let c := control I K (pred j / K) in
      let p := Minus (At j) (Step q (Plus (Minus (Own j) c) (Mean c))) in
      if Nat.eqb (j mod K) 0 then Mean p else p
  end.
Definition scaffold_places I (q : Q) (K T : nat) : list vec :=
  places_by (scaffold_place I q K) (S (T * K)).
Section Steered.
  Context {E : space} (N K : nat) (step : R) (g : nat -> E -> E).
  Lemma moved c k x n w : inner (x - steered N step g c k x n)%vec w = step * sum n (fun s =>
    inner (g k (steered N step g c k x s)) w - inner (c k) w + inner (vmean N c) w).
  Proof.
    induction n as [|n IH]; simpl; [rewrite inner_sub; lra|].
    rewrite inner_sub in IH |- *. rewrite inner_sub, inner_scale, inner_add, inner_sub. lra.
  Qed.
  (** Option II keeps the mean of the client's gradients. *)
  Lemma option_II c k x w : (1 <= K)%nat -> step <> 0 ->
    inner (c k - vmean N c + / (INR K * step) * (x - steered N step g c k x K))%vec w =
    num (1 # Pos.of_nat K) * sum K (fun s => inner (g k (steered N step g c k x s)) w).
  Proof.
    intros K_pos s0. rewrite inner_add, inner_sub, inner_scale, moved.
    rewrite (sum_ext K _ (fun s => inner (g k (steered N step g c k x s)) w +
      (inner (vmean N c) w - inner (c k) w))) by (intros; lra).
    rewrite sum_plus, sum_const.
    assert (R : num (1 # Pos.of_nat K) = / INR K).
    { rewrite num_is. unfold Q2R; simpl. rewrite Rmult_1_l. f_equal.
      rewrite INR_IZR_INZ. f_equal. rewrite <- positive_nat_Z, Nat2Pos.id by lia. reflexivity. }
    rewrite R. assert (INR K <> 0) by (apply not_0_INR; lia). field. split; assumption.
  Qed.
End Steered.
Section Scaffold.
  Context {E : space} (N K T : nat) (I : bool) (q : Q) (L : R) (g : nat -> E -> E) (xs x0 : E).
  Hypothesis K_pos : (1 <= K)%nat.
  Hypothesis L_pos : 0 < L.
  Hypothesis step_pos : num q <> 0.
  Let step := num q / L.
  Definition scaffold_run (t : nat) : E * (nat -> E) :=
    if I then scaffold_I N (num q / L) K g x0 t else scaffold N (num q / L) K g x0 t.
  Definition scaffold_points (i k : nat) : E :=
    match i with
    | O => xs
    | S j => let (x, c) := scaffold_run (j / K) in steered N (num q / L) g c k x (j mod K)
    end.
  Let o i k := g k (scaffold_points i k).
  Let told := tell N L xs x0 scaffold_points o (fun q => q / L).
  Lemma index t s : (s < K)%nat -> scaffold_points (S (t * K + s)) = fun k =>
    steered N step g (snd (scaffold_run t)) k (fst (scaffold_run t)) s.
  Proof.
    intros H. unfold scaffold_points.
    rewrite (Nat.div_add_l t K s), Nat.div_small, Nat.add_0_r by lia.
    rewrite (Nat.add_comm (t * K)), Nat.mod_add, Nat.mod_small by lia.
    destruct (scaffold_run t); reflexivity.
  Qed.
  Lemma told_sum t n k w : (n <= K)%nat -> inner (told true (own_sum (S (t * K)) n) k) w =
    sum n (fun s => inner (g k (scaffold_points (S (t * K + s)) k)) w).
  Proof.
    induction n as [|n IH]; intros H; simpl; [apply inner_zero|].
    rewrite inner_add, IH by lia. reflexivity.
  Qed.
  Lemma control_is t k : snd (scaffold_run t) k = told true (control I K t) k.
  Proof.
    destruct t as [|t]; [unfold scaffold_run; destruct I; reflexivity|].
    apply same; intros w. unfold control.
    pose proof (index t) as X. unfold scaffold_run in *. destruct I; cbv iota in X; simpl.
    - destruct (scaffold_I N (num q / L) K g x0 t) as [x c] eqn:e. unfold o.
      rewrite (f_equal (fun n => scaffold_points (S n)) (eq_sym (Nat.add_0_r (t * K)))).
      rewrite X by lia. reflexivity.
    - destruct (scaffold N (num q / L) K g x0 t) as [x c] eqn:e. simpl.
      rewrite option_II, inner_scale; [|exact K_pos | unfold Rdiv;
        apply Rmult_integral_contrapositive;
        split; [exact step_pos | apply Rinv_neq_0_compat; lra]].
      f_equal. fold told. rewrite (told_sum t K k w (le_n K)).
      apply sum_ext; intros s Hs; rewrite X by exact Hs; reflexivity.
  Qed.
  Lemma scaffold_placed : all_placed N L xs x0 scaffold_points o (fun q => q / L) 0
    (scaffold_places I q K T).
  Proof.
    apply placed_by; [reflexivity|]. intros i k Hi Hk.
    destruct i as [|[|j]]; [lia | simpl; rewrite Nat.div_0_l, Nat.mod_0_l by lia;
      unfold scaffold_run; destruct I; reflexivity |].
    unfold scaffold_place. change (pred (S j)) with j. fold told.
    assert (P : forall k', told false (Minus (At (S j)) (Step q (Plus (Minus (Own (S j))
        (control I K (j / K))) (Mean (control I K (j / K)))))) k' =
      steered N step g (snd (scaffold_run (j / K))) k' (fst (scaffold_run (j / K))) (S (j mod K))).
    { intros k'. simpl. fold told. rewrite <- control_is.
      rewrite <- (vmean_ext N _ _ (fun k _ => control_is (j / K) k)). unfold o, scaffold_points.
      destruct (scaffold_run (j / K)) as [x c]; reflexivity. }
    destruct (next_index K j K_pos) as [(e & f & h)|(e & h)].
    - rewrite e. cbn [Nat.eqb]. cbv zeta. change (told false (Mean ?p) k) with (vmean N
        (told false p)).
      unfold scaffold_points at 1. rewrite e, h.
      rewrite (vmean_ext N _ _ (fun k' _ => P k')), f. replace (S (K - 1)) with K by lia.
      unfold scaffold_run. destruct I; simpl;
        [destruct (scaffold_I N _ K g x0 (j / K)) | destruct (scaffold N _ K g x0 (j / K))];
          reflexivity.
    - assert (Nat.eqb (S j mod K) 0 = false) as -> by (rewrite e; reflexivity).
      cbv zeta. rewrite P. unfold scaffold_points at 1. rewrite e, h.
      destruct (scaffold_run (j / K)); reflexivity.
  Qed.
  Lemma scaffold_last k : scaffold_points (S (T * K)) k = fst (scaffold_run T).
  Proof.
    unfold scaffold_points. rewrite Nat.div_mul, Nat.mod_mul by lia.
    destruct (scaffold_run T); reflexivity.
  Qed.
End Scaffold.

(** * FedDyn and FedProx with exact local solves: point t + 1 is the clients' models of round t. *)
Definition dyn_model_place (q : Q) (t : nat) : vec :=
  match t with
  | O => Start
  | S _ => Minus (Mean (At t)) (Step q (Mean (Own t)))
  end.
Definition feddyn_place (q : Q) (T i : nat) : vec :=
  if Nat.eqb i (S T) then dyn_model_place q T
  else Plus (dyn_model_place q (pred i))
    (Step q (Minus (match pred i with O => Zero | t => Own t end) (Own i))).
Definition feddyn_places (q : Q) (T : nat) : list vec := places_by (feddyn_place q T) (S T).
Definition prox_model_place (t : nat) : vec := match t with O => Start | S _ => Mean (At t) end.
Definition fedprox_place (q : Q) (T i : nat) : vec :=
  if Nat.eqb i (S T) then prox_model_place T
  else Minus (prox_model_place (pred i)) (Step q (Own i)).
Definition fedprox_places (q : Q) (T : nat) : list vec := places_by (fedprox_place q T) (S T).
Section Exact.
  Context {E : space} (N T : nat) (q : Q) (L alpha : R) (g : nat -> E -> E) (xs x0 : E).
  Variables (x : nat -> E) (y h : nat -> nat -> E).
  Hypothesis alpha_pos : alpha <> 0.
  Hypothesis alpha_is : num q / L = / alpha.
  Definition exact_points (i k : nat) : E :=
    match i with O => xs | _ => if Nat.eqb i (S T) then x T else y i k end.
  Let o i k := g k (exact_points i k).
  Lemma solved_is k (u v w : E) : solved alpha g k u v w ->
    w = (v + num q / L * (u - g k w))%vec.
  Proof.
    intros S; apply same; intros z. rewrite alpha_is.
    assert (H : inner (g k w - u + alpha * (w - v))%vec z = 0) by (rewrite S; apply inner_zero).
    rewrite inner_add, inner_scale, !inner_sub in H. rewrite inner_add, inner_scale, inner_sub.
    apply Rmult_eq_reg_l with alpha; [field_simplify; lra | exact alpha_pos].
  Qed.
  Lemma early i k : (1 <= i <= T)%nat -> exact_points i k = y i k.
  Proof.
    intros H; unfold exact_points; destruct i; [lia|].
    assert (Nat.eqb (S i) (S T) = false) as -> by (apply Nat.eqb_neq; lia). reflexivity.
  Qed.
  Lemma feddyn_placed : feddyn N solved alpha g x0 x y h ->
    all_placed N L xs x0 exact_points o (fun q => q / L) 0 (feddyn_places q T).
  Proof.
    intros F. apply placed_by; [reflexivity|]. intros i k Hi Hk.
    assert (St : forall t k, (k < N)%nat -> h (S t) k = g k (y (S t) k)).
    { intros t k' Hk'. rewrite (dyn_stored _ _ _ _ _ _ _ _ F) by exact Hk'. apply same; intros w.
      pose proof (dyn_work _ _ _ _ _ _ _ _ F t k' Hk') as W.
      apply (f_equal (fun v => inner v w)) in W. rewrite inner_zero in W.
      rewrite inner_add, inner_scale, !inner_sub in W. rewrite inner_sub, inner_scale, inner_sub.
      lra. }
    set (tell_ := tell N L xs x0 exact_points o (fun q => q / L)).
    assert (X : forall t k, (t <= T)%nat -> tell_ false (dyn_model_place q t) k = x t).
    { intros t k' Ht. destruct t as [|t]; [symmetry; apply (dyn_start _ _ _ _ _ _ _ _ F)|].
      rewrite (dyn_model _ _ _ _ _ _ _ _ F). unfold tell_, dyn_model_place; cbn [tell].
      rewrite alpha_is. f_equal; [|f_equal]; apply vmean_ext; intros j Hj.
      - apply early; lia.
      - rewrite St by exact Hj. unfold o; rewrite early by lia. reflexivity. }
    unfold feddyn_place. destruct (Nat.eqb_spec i (S T)) as [->|n].
    - rewrite X by lia. unfold exact_points. rewrite Nat.eqb_refl. reflexivity.
    - rewrite early by lia. destruct i as [|t]; [lia|]. change (pred (S t)) with t.
      change (tell_ false (Plus ?a (Step q ?b)) k) with
        (tell_ false a k + num q / L * tell_ true b k)%vec.
      rewrite X by lia.
      rewrite (solved_is k _ _ _ (dyn_work _ _ _ _ _ _ _ _ F t k Hk)) at 1.
      f_equal. f_equal. change (tell_ true (Minus ?a ?b) k) with
        (tell_ true a k - tell_ true b k)%vec.
      f_equal.
      + destruct t as [|t]; [apply (dyn_nothing _ _ _ _ _ _ _ _ F k Hk)|].
        rewrite St by exact Hk. unfold tell_; cbn [tell]. unfold o; rewrite early by lia.
        reflexivity.
      + unfold tell_; cbn [tell]. unfold o; rewrite early by lia. reflexivity.
  Qed.
  Lemma fedprox_placed : fedprox N alpha g x0 x y ->
    all_placed N L xs x0 exact_points o (fun q => q / L) 0 (fedprox_places q T).
  Proof.
    intros F. apply placed_by; [reflexivity|]. intros i k Hi Hk.
    set (tell_ := tell N L xs x0 exact_points o (fun q => q / L)).
    assert (X : forall t k, (t <= T)%nat -> tell_ false (prox_model_place t) k = x t).
    { intros t k' Ht. destruct t as [|t]; [symmetry; apply (prox_start _ _ _ _ _ _ F)|].
      rewrite (prox_model _ _ _ _ _ _ F). apply vmean_ext; intros j Hj. apply early; lia. }
    unfold fedprox_place. destruct (Nat.eqb_spec i (S T)) as [->|n].
    - rewrite X by lia. unfold exact_points. rewrite Nat.eqb_refl. reflexivity.
    - rewrite early by lia. destruct i as [|t]; [lia|]. change (pred (S t)) with t.
      change (tell_ false (Minus ?a (Step q ?b)) k) with
        (tell_ false a k - num q / L * tell_ true b k)%vec. rewrite X by lia.
      rewrite (solved_is k _ _ _ (prox_work _ _ _ _ _ _ F t k Hk)) at 1.
      unfold tell_; cbn [tell]. unfold o; rewrite early by lia.
      apply same; intros w. rewrite inner_add, !inner_sub, !inner_scale, inner_sub, inner_zero. lra.
  Qed.
  Lemma exact_last k : exact_points (S T) k = x T.
  Proof. unfold exact_points; rewrite Nat.eqb_refl; reflexivity. Qed.
End Exact.

(** * The subgradient method *)
Definition subgradient_place (q : Q) (i : nat) : vec :=
  match i with O => Opt | 1%nat => Start | S j => Minus (At j) (Step q (Mean (Own j))) end.
Definition subgradient_places (q : Q) (n : nat) : list vec := places_by (subgradient_place q) n.
Section Subgradient.
  Context {E : space} (N n : nat) (q : Q) (G radius : R) (f : nat -> E -> R) (xs x0 : E).
  Variables (s0 : nat -> E) (x : nat -> E) (s : nat -> nat -> E).
  Definition subgradient_points (i k : nat) : E := match i with O => xs | S t => x t end.
  Definition subgradient_slopes (i k : nat) : E := match i with O => s0 k | S t => s t k end.
  Hypothesis F : subgradient_method N (num q * radius / G) f x0 x s.
  Lemma subgradient_placed : all_placed N (G / radius) xs x0 subgradient_points subgradient_slopes
    (fun q => q * radius / G) 0 (subgradient_places q n).
  Proof.
    apply placed_by; [reflexivity|]. intros i k Hi Hk. destruct i as [|[|t]]; [lia| |].
    - apply (sub_start _ _ _ _ _ _ F).
    - simpl. rewrite (sub_step _ _ _ _ _ _ F). reflexivity.
  Qed.
  Lemma subgradient_slopes_are : (forall k, (k < N)%nat -> subgradient (f k) xs (s0 k)) ->
    forall i k, (k < N)%nat -> subgradient (f k) (subgradient_points i k) (subgradient_slopes i k).
  Proof. intros H [|t] k Hk; [apply H | apply (sub_slope _ _ _ _ _ _ F)]; exact Hk. Qed.
End Subgradient.

(** * FedDyn with [K] local gradient steps *)
Definition walk_step (q a : Q) (H : vec) (first j : nat) : vec :=
  Minus (At j) (Step q (Plus (Minus (Own j) H) (Slope a (Minus (At j) (At first))))).
Fixpoint walk_stored (q a : Q) (K t : nat) : vec :=
  match t with
  | O => Zero
  | S s => let H := walk_stored q a K s in let first := S (s * K) in
      Minus H (Slope a (Minus (walk_step q a H first (s * K + K)) (At first)))
  end.
Definition walk_place (q a : Q) (K i : nat) : vec :=
  match i with
  | O => Opt | 1%nat => Start
  | S j => let t := (pred j / K)%nat in
      let y := walk_step q a (walk_stored q a K t) (S (t * K)) j in
      if Nat.eqb (j mod K) 0
      then Minus (Mean y) (Step (/ a) (Mean (walk_stored q a K (S t)))) else y
  end.
Definition walk_places (q a : Q) (K T : nat) : list vec := places_by (walk_place q a K) (S (T * K)).
Section Walk.
  Context {E : space} (N K T : nat) (q a : Q) (L : R) (g : nat -> E -> E) (xs x0 : E).
  Variables (x : nat -> E) (y h : nat -> nat -> E).
  Hypothesis K_pos : (1 <= K)%nat.
  Hypothesis L_pos : 0 < L.
  Hypothesis a_pos : num a <> 0.
  Hypothesis F : feddyn N (walked K (num q / L)) (num a * L) g x0 x y h.
  Definition walk_points (i k : nat) : E :=
    match i with
    | O => xs
    | S j => walk (num a * L) (num q / L) g k (h (j / K) k) (x (j / K)) (j mod K)
    end.
  Let o i k := g k (walk_points i k).
  Let told := tell N L xs x0 walk_points o (fun q => q / L).
  Lemma walk_at t s k : (s < K)%nat ->
    walk_points (S (t * K + s)) k = walk (num a * L) (num q / L) g k (h t k) (x t) s.
  Proof.
    intros H. unfold walk_points.
    rewrite (Nat.div_add_l t K s), Nat.div_small, Nat.add_0_r by lia.
    rewrite (Nat.add_comm (t * K)), Nat.mod_add, Nat.mod_small by lia. reflexivity.
  Qed.
  Lemma walk_step_is H t s k : (s < K)%nat -> told true H k = h t k ->
    told false (walk_step q a H (S (t * K)) (S (t * K + s))) k =
    walk (num a * L) (num q / L) g k (h t k) (x t) (S s).
  Proof.
    intros Hs HH. unfold told in *. unfold walk_step; cbn [tell]. rewrite HH. unfold o.
    rewrite (walk_at t s k Hs). pose proof (walk_at t 0 k ltac:(lia)) as W.
    rewrite Nat.add_0_r in W. rewrite W. reflexivity.
  Qed.
  Lemma walk_stored_is t : forall k, (k < N)%nat -> told true (walk_stored q a K t) k = h t k.
  Proof.
    induction t as [|t IH]; intros k Hk.
    - symmetry; apply (dyn_nothing _ _ _ _ _ _ _ _ F k Hk).
    - pose proof (dyn_work _ _ _ _ _ _ _ _ F t k Hk) as Y. unfold walked in Y.
      rewrite (dyn_stored _ _ _ _ _ _ _ _ F t k Hk), Y.
      pose proof (walk_step_is (walk_stored q a K t) t (K - 1) k ltac:(lia) (IH k Hk)) as W.
      replace (S (t * K + (K - 1)))%nat with (t * K + K)%nat in W by lia.
      replace (S (K - 1)) with K in W by lia.
      pose proof (walk_at t 0 k ltac:(lia)) as W0. rewrite Nat.add_0_r in W0.
      cbn [walk_stored]. cbv zeta. unfold told in *. cbn [tell] in *. rewrite IH by exact Hk.
      f_equal. f_equal. f_equal; [exact W | exact W0].
  Qed.
  Lemma walk_placed : all_placed N L xs x0 walk_points o (fun q => q / L) 0 (walk_places q a K T).
  Proof.
    apply placed_by; [reflexivity|]. intros i k Hi Hk.
    destruct i as [|[|j]]; [lia | simpl; rewrite Nat.div_0_l, Nat.mod_0_l by lia;
      apply (dyn_start _ _ _ _ _ _ _ _ F) |].
    unfold walk_place. change (pred (S j)) with j. fold told.
    assert (P : forall k', (k' < N)%nat -> told false (walk_step q a (walk_stored q a K (j / K))
      (S (j / K * K)) (S j)) k' = walk (num a * L) (num q / L) g k' (h (j / K) k') (x (j / K))
      (S (j mod K))).
    { intros k' Hk'. rewrite <- (walk_step_is _ (j / K) (j mod K) k'
        (Nat.mod_upper_bound j K ltac:(lia)) (walk_stored_is (j / K) k' Hk')).
      do 2 f_equal. pose proof (Nat.div_mod j K ltac:(lia)). lia. }
    destruct (next_index K j K_pos) as [(e & f & h')|(e & h')].
    - rewrite e. cbn [Nat.eqb]. cbv zeta.
      change (told false (Minus (Mean ?u) (Step ?r (Mean ?v))) k) with
        (vmean N (told false u) - num r / L * vmean N (told true v))%vec.
      unfold walk_points at 1. rewrite e, h'. cbn [walk]. rewrite (dyn_model _ _ _ _ _ _ _ _ F).
      assert (R : num (/ a) / L = / (num a * L)).
      { rewrite num_is in a_pos |- *. rewrite num_is, Q2R_inv; [field; lra|].
        intros Z; apply Qeq_eqR in Z. rewrite Q2R_0 in Z. contradiction. }
      rewrite R. f_equal; [|f_equal]; apply vmean_ext; intros k' Hk'.
      + rewrite P by exact Hk'. rewrite (dyn_work _ _ _ _ _ _ _ _ F (j / K) k' Hk').
        unfold walked. f_equal. lia.
      + symmetry; apply (walk_stored_is (S (j / K)) k' Hk').
    - assert (Nat.eqb (S j mod K) 0 = false) as -> by (rewrite e; reflexivity).
      cbv zeta. rewrite P by exact Hk. unfold walk_points at 1. rewrite e, h'. reflexivity.
  Qed.
  Lemma walk_last k : walk_points (S (T * K)) k = x T.
  Proof. unfold walk_points. rewrite Nat.div_mul, Nat.mod_mul by lia. reflexivity. Qed.
End Walk.

(** * FedMLS with exact local solves: point t is the clients' z of round t, the last is x. *)
Definition mixed (t : nat) (a b : vec) : vec :=
  Plus (Times (Z.of_nat t # Pos.of_nat (t + 2)) a) (Times (2 # Pos.of_nat (t + 2)) b).
Definition quarter (t : nat) : Q := Z.of_nat (t + 1) # 4.
(** x, z and the clients' x and z after [t] rounds. *)
Fixpoint mls_state (t : nat) : vec * vec * (vec * vec) :=
  match t with
  | O => (Start, Start, (Start, Start))
  | S r => let '(x, z, (xl, zl)) := mls_state r in
      let z' := Minus z (Times (quarter r) (Minus (mixed r x z) (Mean (mixed r xl zl)))) in
      (mixed r x z', z', (mixed r xl (At t), At t))
  end.
Definition mls_place (a : Q) (T i : nat) : vec :=
  if Nat.eqb i T then fst (fst (mls_state T))
  else let r := pred i in let '(x, z, (xl, zl)) := mls_state r in
    Minus zl (Plus (Step (a * quarter r) (Own i))
      (Times (quarter r) (Minus (mixed r xl zl) (mixed r x z)))).
Definition fedmls_places (a : Q) (T : nat) : list vec := places_by (mls_place a T) T.
Section Mls.
  Context {E : space} (N T : nat) (a : Q) (G radius : R) (f : nat -> E -> R) (xs x0 : E).
  Variables (s0 last : nat -> E) (x z : nat -> E) (xl zl s : nat -> nat -> E).
  Hypothesis G_pos : 0 < G.
  Hypothesis r_pos : 0 < radius.
  Hypothesis a_pos : num a <> 0.
  Hypothesis F : fedmls N (num a * radius / G) f x0 x z xl zl s.
  Definition mls_points (i k : nat) : E :=
    match i with O => xs | _ => if Nat.eqb i T then x T else zl i k end.
  Definition mls_slopes (i k : nat) : E :=
    match i with O => s0 k | _ => if Nat.eqb i T then last k else s i k end.
  Let tell_ := tell N (G / radius) xs x0 mls_points mls_slopes (fun q => q * radius / G).
  Lemma part_is t : num (2 # Pos.of_nat (t + 2)) = 2 / INR (t + 2).
  Proof.
    rewrite num_is. unfold Q2R, Rdiv; cbn [Qnum Qden]. do 2 f_equal.
    rewrite INR_IZR_INZ. f_equal. rewrite <- positive_nat_Z, Nat2Pos.id by lia. reflexivity.
  Qed.
  Lemma rest_is t : num (Z.of_nat t # Pos.of_nat (t + 2)) = 1 - 2 / INR (t + 2).
  Proof.
    rewrite num_is. unfold Q2R; cbn [Qnum Qden].
    rewrite <- (positive_nat_Z (Pos.of_nat (t + 2))), Nat2Pos.id by lia.
    rewrite <- !INR_IZR_INZ, plus_INR. pose proof (pos_INR t). simpl. field. apply Rgt_not_eq; lra.
  Qed.
  Lemma quarter_is t : num (quarter t) = INR (t + 1) / 4.
  Proof. rewrite num_is. unfold Q2R, quarter; cbn [Qnum Qden]. rewrite <- INR_IZR_INZ. reflexivity.
  Qed.
  Lemma mixed_is t b u v k c d : tell_ false u k = c -> tell_ false v k = d -> b = false ->
    tell_ b (mixed t u v) k = ((1 - 2 / INR (t + 2))%R * c + (2 / INR (t + 2))%R * d)%vec.
  Proof.
    intros <- <- ->. unfold tell_, mixed; cbn [tell]. rewrite part_is, rest_is. reflexivity.
  Qed.
  Lemma inside i k : (1 <= i < T)%nat -> mls_points i k = zl i k /\ mls_slopes i k = s i k.
  Proof.
    intros H. unfold mls_points, mls_slopes. destruct i; [lia|].
    assert (Nat.eqb (S i) T = false) as -> by (apply Nat.eqb_neq; lia). split; reflexivity.
  Qed.
  Lemma state_is t : (t <= T)%nat -> forall k, (k < N)%nat ->
    let '(X, Z, (XL, ZL)) := mls_state t in
    tell_ false X k = x t /\ tell_ false Z k = z t /\
    ((t < T)%nat -> tell_ false XL k = xl t k /\ tell_ false ZL k = zl t k).
  Proof.
    induction t as [|t IH]; intros Ht k Hk.
    - destruct (mls_start _ _ _ _ _ _ _ _ _ F) as (A & B & C). destruct (C k Hk) as [C1 C2].
      unfold tell_; simpl. rewrite A, B, C1, C2. auto.
    - specialize (IH ltac:(lia)). cbn [mls_state].
      destruct (mls_state t) as [[X Z] [XL ZL]] eqn:e.
      destruct (mls_round _ _ _ _ _ _ _ _ _ F t) as (A & B & C). destruct (C k Hk) as (C1 & _).
      destruct (IH k Hk) as (HX & HZ & HL). specialize (HL ltac:(lia)). destruct HL as [HXL HZL].
      assert (NZ : tell_ false (Minus Z (Times (quarter t) (Minus (mixed t X Z)
          (Mean (mixed t XL ZL))))) k = z (S t)).
      { rewrite A. change (tell_ false (Minus Z (Times (quarter t) (Minus ?u (Mean ?v)))) k) with
          (tell_ false Z k - num (quarter t) * (tell_ false u k - vmean N (tell_ false v)))%vec.
        rewrite quarter_is, HZ, (mixed_is t false X Z k _ _ HX HZ eq_refl). do 3 f_equal.
        apply vmean_ext; intros j Hj. destruct (IH j Hj) as (_ & _ & HJ).
        destruct (HJ ltac:(lia)) as [J1 J2]. apply (mixed_is t false XL ZL j _ _ J1 J2 eq_refl). }
      split; [|split; [exact NZ|]].
      + rewrite B. apply (mixed_is t false X _ k _ _ HX NZ eq_refl).
      + intros H. assert (P : tell_ false (At (S t)) k = zl (S t) k)
          by (apply (inside (S t) k); lia).
        split; [|exact P]. rewrite C1. apply (mixed_is t false XL _ k _ _ HXL P eq_refl).
  Qed.
  Lemma mls_last k : (1 <= T)%nat -> mls_points T k = x T.
  Proof. intros H; unfold mls_points; destruct T; [lia | rewrite Nat.eqb_refl; reflexivity]. Qed.
  Lemma fedmls_placed : all_placed N (G / radius) xs x0 mls_points mls_slopes
    (fun q => q * radius / G) 0 (fedmls_places a T).
  Proof.
    apply placed_by; [reflexivity|]. intros i k Hi Hk. fold tell_. unfold mls_place.
    destruct (Nat.eqb_spec i T) as [->|n].
    - rewrite mls_last by lia. pose proof (state_is T (le_n T) k Hk) as H.
      destruct (mls_state T) as [[X Z] [XL ZL]]. symmetry; apply H.
    - destruct (inside i k ltac:(lia)) as [P1 P2]. rewrite P1. destruct i as [|t]; [lia|].
      change (pred (S t)) with t. cbv zeta. pose proof (state_is t ltac:(lia) k Hk) as H.
      destruct (mls_state t) as [[X Z] [XL ZL]]. destruct H as (HX & HZ & HL).
      destruct (HL ltac:(lia)) as [HXL HZL].
      destruct (mls_round _ _ _ _ _ _ _ _ _ F t) as (_ & _ & C).
      destruct (C k Hk) as (_ & _ & W). cbv zeta beta in W.
      change (tell_ false (Minus ZL (Plus (Step ?q (Own (S t))) (Times ?r (Minus ?u ?v)))) k) with
        (tell_ false ZL k - (num q * radius / G * mls_slopes (S t) k +
          num r * (tell_ false u k - tell_ false v k)))%vec.
      rewrite P2, HZL, quarter_is, (mixed_is t false XL ZL k _ _ HXL HZL eq_refl),
        (mixed_is t false X Z k _ _ HX HZ eq_refl).
      assert (Q : num (a * quarter t) * radius / G = num a * radius / G * (INR (t + 1) / 4)).
      { rewrite <- quarter_is, !num_is, Q2R_mult. field. lra. }
      rewrite Q. apply same; intros w. apply (f_equal (fun v => inner v w)) in W.
      rewrite inner_zero in W. set (lam := num a * radius / G) in *.
      assert (lam <> 0) by (unfold lam, Rdiv; repeat apply Rmult_integral_contrapositive_currified;
        try apply Rinv_neq_0_compat; lra).
      assert (INR (t + 1) <> 0) by (apply not_0_INR; lia).
      set (yl := ((1 - 2 / INR (t + 2))%R * xl t k + (2 / INR (t + 2))%R * zl t k)%vec) in *.
      set (y := ((1 - 2 / INR (t + 2))%R * x t + (2 / INR (t + 2))%R * z t)%vec) in *.
      clearbody yl y lam. rewrite !inner_add, !inner_scale, !inner_sub in W.
      rewrite inner_sub, inner_add, !inner_scale, inner_sub.
      set (n1 := INR (t + 1)) in *.
      set (move := inner (zl (S t) k) w - inner (zl t k) w) in *.
      set (pull := inner yl w - inner y w) in *.
      assert (M : move = lam * n1 / 4 * (4 / (lam * n1) * move)) by (field; split; assumption).
      assert (U : lam * n1 / 4 * (/ lam * pull) = n1 / 4 * pull) by (field; assumption).
      replace (4 / (lam * n1) * move) with (- inner (s (S t) k) w - / lam * pull) in M by lra.
      unfold move in M. lra.
  Qed.
  Lemma mls_slopes_are : (forall k, (k < N)%nat -> subgradient (f k) xs (s0 k)) ->
    (forall k, (k < N)%nat -> subgradient (f k) (x T) (last k)) ->
    forall i k, (i <= T)%nat -> (k < N)%nat -> subgradient (f k) (mls_points i k) (mls_slopes i k).
  Proof.
    intros H0 HT i k Hi Hk. destruct i as [|t]; [apply H0, Hk|].
    unfold mls_points, mls_slopes. destruct (Nat.eqb_spec (S t) T) as [e|n]; [apply HT, Hk|].
    destruct (mls_round _ _ _ _ _ _ _ _ _ F t) as (_ & _ & C). apply (C k Hk).
  Qed.
End Mls.

(** * FedElasticNet's true-gradient rule: vector T + 2 + t is the l1 term's pull of round t. *)
Definition stored_place (t : nat) : vec := match t with O => Zero | S _ => Own t end.
Definition net_place (q : Q) (T i : nat) : vec :=
  if Nat.eqb i (S T) then dyn_model_place q T
  else Plus (dyn_model_place q (pred i))
    (Step q (Minus (Minus (stored_place (pred i)) (Own i)) (Own (T + 2 + i)))).
Definition net_places (q : Q) (T : nat) : list vec := places_by (net_place q T) (S T).
(** The pull of round [t], less [sign] times that of round [r] or its mean, along the move of round
    t. *)
Record pull := Pull { pull_number : Q; pull_of : nat; sign : Q; other_mean : bool; other : nat }.
Definition pull_term (q : Q) (T : nat) (u : pull) : Q * (vec * vec) :=
  let p := Own (T + 2 + other u) in
  (pull_number u,
    (Minus (Own (T + 2 + pull_of u)) (Times (sign u) (if other_mean u then Mean p else p)),
    Minus (At (pull_of u)) (dyn_model_place q (pred (pull_of u))))).
Definition pulls_fit (T : nat) (l : list pull) : bool := forallb (fun u =>
  Nat.leb 1 (pull_of u) && Nat.leb (pull_of u) T && Nat.leb 1 (other u) && Nat.leb (other u) T
  && Qle_bool (-1) (sign u) && Qle_bool (sign u) 1) l.
Section Net.
  Context {E : space} (N T : nat) (some : (1 <= N)%nat) (q : Q) (L l1 l2 : R) (norm : E -> R).
  Variables (g : nat -> E -> E) (xs x0 : E) (x : nat -> E) (y h p : nat -> nat -> E).
  Hypothesis L_pos : 0 < L.
  Hypothesis l2_pos : l2 <> 0.
  Hypothesis l2_is : num q / L = / l2.
  Hypothesis F : elastic_net N norm l1 l2 g x0 x y h p.
  Let pt := exact_points T xs x y.
  Definition net_vectors (i k : nat) : E :=
    if Nat.ltb i (T + 2) then g k (exact_points T xs x y i k) else p (i - (T + 2)) k.
  Let o := net_vectors.
  Let tell_ := tell N L xs x0 pt o (fun q => q / L).
  Lemma old_vector i k : (i < T + 2)%nat -> o i k = g k (pt i k).
  Proof. intros H; unfold o, net_vectors. apply Nat.ltb_lt in H; rewrite H; reflexivity. Qed.
  Lemma new_vector t k : o (T + 2 + t)%nat k = p t k.
  Proof.
    unfold o, net_vectors. assert (Nat.ltb (T + 2 + t) (T + 2) = false) as -> by (apply Nat.ltb_ge;
      lia).
    f_equal. lia.
  Qed.
  Lemma net_model_is t k : (t <= T)%nat -> tell_ false (dyn_model_place q t) k = x t.
  Proof.
    intros Ht. destruct t as [|t]; [symmetry; apply (net_start _ _ _ _ _ _ _ _ _ _ F)|].
    rewrite (net_model _ _ _ _ _ _ _ _ _ _ F). unfold tell_, dyn_model_place; cbn [tell].
    rewrite l2_is. f_equal; [|f_equal]; apply vmean_ext; intros j Hj.
    - apply early; lia.
    - rewrite (net_stored _ _ _ _ _ _ _ _ _ _ F) by exact Hj. rewrite old_vector by lia.
      unfold pt; rewrite early by lia. reflexivity.
  Qed.
  Lemma net_placed : all_placed N L xs x0 pt o (fun q => q / L) 0 (net_places q T).
  Proof.
    apply placed_by; [reflexivity|]. intros i k Hi Hk. fold tell_. unfold net_place.
    destruct (Nat.eqb_spec i (S T)) as [->|n].
    - rewrite net_model_is by lia. unfold pt, exact_points. rewrite Nat.eqb_refl. reflexivity.
    - unfold pt; rewrite early by lia. destruct i as [|t]; [lia|]. change (pred (S t)) with t.
      change (tell_ false (Plus ?a (Step q (Minus (Minus ?b ?c) ?d))) k) with
        (tell_ false a k + num q / L * (tell_ true b k - tell_ true c k - tell_ true d k))%vec.
      rewrite net_model_is by lia. unfold tell_ at 2 3; cbn [tell].
      rewrite new_vector, old_vector by lia. unfold pt; rewrite early by lia.
      assert (H : tell_ true (stored_place t) k = h t k).
      { destruct t as [|t]; [symmetry; apply (net_nothing _ _ _ _ _ _ _ _ _ _ F k Hk)|].
        unfold tell_, stored_place; cbn [tell]. rewrite (net_stored _ _ _ _ _ _ _ _ _ _ F)
          by exact Hk.
        rewrite old_vector by lia. unfold pt; rewrite early by lia. reflexivity. }
      rewrite H. apply same; intros w.
      pose proof (net_work _ _ _ _ _ _ _ _ _ _ F t k Hk) as W.
      apply (f_equal (fun v => inner v w)) in W. rewrite inner_zero in W.
      rewrite !inner_add, inner_scale, !inner_sub in W. rewrite inner_add, inner_scale, !inner_sub.
      rewrite l2_is. apply Rmult_eq_reg_l with l2; [|exact l2_pos].
      rewrite Rmult_plus_distr_l, <- Rmult_assoc, Rinv_r by exact l2_pos. lra.
  Qed.
  Lemma kink (m v : E) : subgradient (fun v => l1 * norm v) m v ->
    inner v m = l1 * norm m /\ forall z, Rabs (inner v z) <= l1 * norm z.
  Proof.
    intros S. pose proof (net_norm _ _ _ _ _ _ _ _ _ _ F) as H.
    assert (M : inner v m = l1 * norm m).
    { pose proof (S (0 * m)%vec) as S0. pose proof (S (2 * m)%vec) as S2.
      rewrite inner_sub_r, inner_scale_r, H in S0, S2.
      rewrite Rabs_R0 in S0. rewrite (Rabs_right 2) in S2 by lra. lra. }
    split; [exact M|]. intros z. apply Rabs_le. pose proof (S z) as U.
    pose proof (S (-1 * z)%vec) as V.
    rewrite inner_sub_r in U, V. rewrite inner_scale_r, H in V.
    rewrite (Rabs_left (-1)) in V by lra. lra.
  Qed.
  Lemma pulls_positive l : pulls_fit T l = true ->
    forall u, In u (map (pull_term q T) l) -> 0 <= mean N (fun k =>
      inner (den N L xs x0 pt o (fst (snd u)) k) (den N L xs x0 pt o (snd (snd u)) k)).
  Proof.
    intros V u I. apply in_map_iff in I as [r [<- Ir]]. unfold pulls_fit in V.
    rewrite forallb_forall in V. specialize (V r Ir). rewrite !andb_true_iff in V.
    destruct V as (((((T1 & T2) & R1) & R2) & S1) & S2). apply Nat.leb_le in T1, T2, R1, R2.
    apply Qle_bool_imp_le, Qle_Rle in S1, S2. rewrite Q2R_minus_1 in S1. rewrite Q2R_1 in S2.
    destruct r as [z t sg mn r]; simpl in *.
    destruct t as [|t]; [lia|]. destruct r as [|r]; [lia|]. change (pred (S t)) with t.
    apply mean_pos; [exact some|]. intros k Hk. set (m := (y (S t) k - x t)%vec).
    assert (B : forall w, inner (den N L xs x0 pt o (dyn_model_place q t) k) w = inner
      (x t - xs)%vec w).
    { intros w. pose proof (checker.told N some L L_pos xs x0 pt o (fun q => q / L)
        (fun _ => eq_refl)
        (dyn_model_place q t) false k w) as W.
      fold tell_ in W. rewrite net_model_is in W by lia.
      assert (Wt : Q2R (weight (dyn_model_place q t)) = 1)
        by (rewrite <- Q2R_1; apply Qeq_eqR; destruct t; simpl; ring).
      rewrite Wt in W. rewrite inner_sub. lra. }
    assert (Bm : forall w, inner (pt (S t) k - xs - den N L xs x0 pt o
      (dyn_model_place q t) k)%vec w
      = inner m w).
    { intros w. rewrite !inner_sub, B, inner_sub. unfold m, pt. rewrite early by lia.
      rewrite inner_sub. lra. }
    rewrite inner_sym, Bm, inner_sym. pose proof (Rinv_0_lt_compat L L_pos) as Li.
    pose proof (kink m _ (net_kink _ _ _ _ _ _ _ _ _ _ F t k Hk)) as [K1 _].
    rewrite inner_sub, inner_scale. unfold own at 1. rewrite new_vector, inner_scale, K1.
    set (W := l1 * norm m) in *.
    assert (Each : forall j, (j < N)%nat -> Rabs (inner (p (S r) j) m) <= W)
      by (intros j Hj; apply (kink _ _ (net_kink _ _ _ _ _ _ _ _ _ _ F r j Hj))).
    assert (Other : exists v, inner (den N L xs x0 pt o (if mn then Mean (Own (T + 2 + S r))
        else Own (T + 2 + S r)) k) m = / L * v /\ - W <= v <= W).
    { assert (Ab : forall j, (j < N)%nat -> - W <= inner (p (S r) j) m <= W)
        by
        (intros j Hj; specialize (Each j Hj); set (v := inner (p (S r) j) m) in *;
         pose proof (Rle_abs v); pose proof (Rle_abs (- v)) as A; rewrite Rabs_Ropp in A; lra).
      destruct mn; cbn [den].
      - exists (mean N (fun j => inner (p (S r) j) m)). split.
        + rewrite inner_vmean, <- mean_times. apply mean_ext; intros j Hj. unfold own.
          rewrite new_vector, inner_scale; reflexivity.
        + split; [rewrite <- (mean_const N some (- W)) | rewrite <- (mean_const N some W)];
            apply mean_le; try exact some; intros j Hj; apply Ab, Hj.
      - exists (inner (p (S r) k) m). unfold own. rewrite new_vector, inner_scale.
        split; [reflexivity | apply Ab, Hk]. }
    destruct Other as [v [-> Hv]].
    assert (0 <= W - Q2R sg * v) by (destruct (Rle_dec 0 v); nra).
    assert (0 <= / L * (W - Q2R sg * v)) by (apply Rmult_le_pos; lra). lra.
  Qed.
End Net.
