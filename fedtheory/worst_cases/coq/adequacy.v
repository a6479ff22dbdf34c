(** That the definitions are what they say: R^n is a space, there are settings, a convex loss whose
    gradient is L-Lipschitz is in the class, and |x| is one of bounded subgradients. No theorem of a
    method needs this file, whose last theorem rests on the excluded middle besides, as Coq's mean
    value theorem does. *)
From Coq Require Import Reals Lra Lia.
From Fedtheory Require Import facts methods_defined.
Open Scope R_scope.

(** R^n: n numbers. *)
Fixpoint numbers (n : nat) : Type := match n with O => unit | S m => (R * numbers m)%type end.
Fixpoint origin n : numbers n := match n with O => tt | S m => (0, origin m) end.
Fixpoint plus n : numbers n -> numbers n -> numbers n := match n with
  | O => fun _ _ => tt | S m => fun x y => (fst x + fst y, plus m (snd x) (snd y)) end.
Fixpoint times n (a : R) : numbers n -> numbers n := match n with
  | O => fun _ => tt | S m => fun x => (a * fst x, times m a (snd x)) end.
Fixpoint dot n : numbers n -> numbers n -> R := match n with
  | O => fun _ _ => 0 | S m => fun x y => fst x * fst y + dot m (snd x) (snd y) end.
Lemma dot_pos n : forall x, 0 <= dot n x x.
Proof. induction n as [|n IH]; intros x; simpl; [lra | specialize (IH (snd x)); nra]. Qed.
Definition coordinates (n : nat) : space.
Proof.
  refine (Space (numbers n) (origin n) (plus n) (times n) (dot n) _ _ _ _ (dot_pos n) _).
  - induction n as [|n IH]; intros; simpl; [reflexivity | rewrite (IH (snd x)); ring].
  - induction n as [|n IH]; intros; simpl; [reflexivity | rewrite IH; ring].
  - induction n as [|n IH]; intros; simpl; [ring | rewrite IH; ring].
  - induction n as [|n IH]; intros; simpl; [ring | rewrite IH; ring].
  - induction n as [|n IH]; intros x y H; simpl in *; [destruct x, y; reflexivity|].
    destruct x as [a x], y as [b y]; simpl in *. pose proof (dot_pos n (plus n x (times n (-1) y))).
    pose proof (Rle_0_sqr (a + -1 * b)) as Q; unfold Rsqr in Q. f_equal; [nra | apply IH; lra].
Defined.

(** Squared distances are in the class. *)
Lemma parabola {E : space} mu L (c : E) : 0 <= mu <= L ->
  smooth_convex mu L (fun x => L / 2 * ||x - c||^2) (fun x => L * (x - c))%vec.
Proof.
  intros HL; split; intros x y; expand; pose proof (inner_pos (y - x)%vec) as P; expand;
    rewrite ?(inner_sym y x), ?(inner_sym c x), ?(inner_sym c y), ?(inner_sym y c) in *; nra.
Qed.

(** Two clients on the line, with optimum 0: a setting with L = 1, radius 1 and zeta = 1. *)
Example setting_exists : let E := coordinates 1 in
  let c k : E := (match k with O => 1 | _ => -1 end, tt) in
  setting (E := E) 2 0 1 1 1 (fun k x => 1 / 2 * ||x - c k||^2) (fun k x => 1 * (x - c k))%vec
    (0, tt) (1, tt).
Proof.
  intros E c; constructor.
  - lia.
  - intros k _; apply parabola; lra.
  - intros x; unfold objective, mean; simpl. nra.
  - simpl; lra.
  - unfold mean; simpl; lra.
Qed.

(** Of squared distances FedDyn has a run with exact local solves. *)
Section Run.
  Context {E : space} (N : nat) (L alpha : R) (c : nat -> E) (x0 : E).
  Hypothesis L_pos : 0 < L.
  Hypothesis alpha_pos : 0 < alpha.
  Definition solution (h : nat -> E) (x : E) (k : nat) : E :=
    (/ (L + alpha) * (L * c k + h k + alpha * x))%vec.
  (** The model, the clients' models and their stored gradients. *)
  Fixpoint run (t : nat) : E * (nat -> E) * (nat -> E) :=
    match t with
    | O => (x0, fun _ => x0, fun _ => zero)
    | S s => let '(x, _, h) := run s in let y := solution h x in
        let h' := fun k => (h k - alpha * (y k - x))%vec in
        ((vmean N y - / alpha * vmean N h')%vec, y, h')
    end.
  Example feddyn_runs : exists x y h,
    feddyn N solved alpha (fun k x => L * (x - c k))%vec x0 x y h.
  Proof.
    exists (fun t => fst (fst (run t))), (fun t => snd (fst (run t))), (fun t => snd (run t)).
    constructor; intros; simpl; try reflexivity; destruct (run t) as [[x y] h]; try reflexivity.
    unfold solved, solution; simpl. apply same; intros w. rewrite inner_zero. expand. field. lra.
  Qed.
End Run.

(** |x| on the line has subgradients of at most 1 in size: sign(x), and all of [-1, 1] at 0. *)
Definition sign (x : R) : R := if Rlt_dec 0 x then 1 else if Rlt_dec x 0 then -1 else 0.
Example absolute_value : let E := coordinates 1 in let f := fun x : E => Rabs (fst x) in
  (forall x : E, subgradient f x (sign (fst x), tt)) /\
  (forall x s : E, subgradient f x s -> ||s||^2 <= 1 ^ 2).
Proof.
  intros E f. assert (A : forall a b s, Rabs a + (s * (b + -1 * a) + 0) <= Rabs b <->
    Rabs a + s * (b - a) <= Rabs b) by (intros; split; lra).
  split.
  - intros [a []] [b []]; unfold f; simpl. apply A. unfold sign, Rabs.
    destruct (Rcase_abs a), (Rcase_abs b), (Rlt_dec 0 a), (Rlt_dec a 0); nra.
  - intros [a []] [s []] H; simpl.
    assert (S : forall b, Rabs a + s * (b - a) <= Rabs b) by (intros b; apply A; exact (H (b, tt))).
    pose proof (S (a + 1)) as U. pose proof (S (a - 1)) as V.
    pose proof (Rabs_triang a 1) as T. pose proof (Rabs_triang a (-1)) as W.
    rewrite (Rabs_right 1) in T by lra. rewrite (Rabs_left (-1)) in W by lra.
    replace (a - 1) with (a + -1) in V by lra. nra.
Qed.
Example bounded_setting_exists : let E := coordinates 1 in
  bounded_setting (E := E) 1 1 1 (fun _ x => Rabs (fst x)) (fun _ => (0, tt)) (0, tt) (1, tt).
Proof.
  destruct absolute_value as [D B]. constructor.
  - lia.
  - intros x u H. unfold mean; simpl. specialize (B (x O) (u O) (H O ltac:(lia))). simpl in B.
    simpl. lra.
  - intros k _. intros y. specialize (D (0, tt) y). unfold sign in D; simpl in D |- *.
    destruct (Rlt_dec 0 0); lra.
  - unfold vmean, vsum; simpl. f_equal. lra.
  - simpl; lra.
Qed.

(** Where subgradients have mean 0 the mean of the losses is least. *)
Lemma balanced_is_optimal {E : space} N G r f s (xs x0 : E) :
  bounded_setting N G r f s xs x0 -> forall x, objective N f xs <= objective N f x.
Proof.
  intros S x. unfold objective.
  assert (H : mean N (fun k => f k xs + <<s k, x - xs>>) <= mean N (fun k => f k x))
    by (apply mean_le; [apply (one_client S) | intros k Hk; apply (at_optimum S k Hk)]).
  rewrite mean_plus, <- inner_vmean, (balanced S), inner_zero in H. lra.
Qed.

(** The class is that of the textbooks. *)
Section Textbook.
  Context {E : space}.
  Ltac vectors := apply same; intros ?; expand; lra.
  Lemma add_comm (x y : E) : (x + y = y + x)%vec. Proof. vectors. Qed.
  Lemma add_assoc (x y z : E) : (x + (y + z) = (x + y) + z)%vec. Proof. vectors. Qed.
  Lemma add_zero (x : E) : (x + zero = x)%vec. Proof. vectors. Qed.
  Lemma sub_self (x : E) : (x - x = zero)%vec. Proof. vectors. Qed.
  Lemma scale_one (x : E) : (1 * x = x)%vec. Proof. vectors. Qed.
  Lemma scale_scale a b (x : E) : (a * (b * x))%vec = ((a * b)%R * x)%vec. Proof. vectors. Qed.
  Lemma scale_add a (x y : E) : (a * (x + y) = a * x + a * y)%vec. Proof. vectors. Qed.
  Lemma add_scale a b (x : E) : (((a + b)%R * x)%vec = a * x + b * x)%vec. Proof. vectors. Qed.

  Definition convex (f : E -> R) :=
    forall x y t, 0 <= t <= 1 -> f ((1 - t)%R * x + t * y)%vec <= (1 - t) * f x + t * f y.
  Definition gradient (f : E -> R) (g : E -> E) :=
    forall x v, derivable_pt_lim (fun t => f (x + t * v)%vec) 0 (inner (g x) v).
  Definition lipschitz L (g : E -> E) := forall x y, ||g x - g y||^2 <= L ^ 2 * ||x - y||^2.

  Lemma tangent f g : convex f -> gradient f g -> forall x y, f x + <<g x, y - x>> <= f y.
  Proof.
    intros C G x y. apply Rnot_lt_le; intros H.
    set (l := <<g x, y - x>>) in *. set (eps := f x + l - f y).
    destruct (G x (y - x)%vec eps) as [d D]; [unfold eps; lra|]. fold l in D.
    pose proof (cond_pos d) as Hd.
    set (t := Rmin (d / 2) 1). assert (Ht : 0 < t) by (apply Rmin_pos; lra).
    assert (t <= 1) by apply Rmin_r. assert (t <= d / 2) by apply Rmin_l.
    specialize (D t ltac:(lra) ltac:(rewrite Rabs_pos_eq; lra)).
    replace (x + (0 + t)%R * (y - x))%vec with ((1 - t)%R * x + t * y)%vec in D by vectors.
    replace (x + 0 * (y - x))%vec with x in D by vectors.
    specialize (C x y t ltac:(lra)). apply Rabs_def2 in D as [_ D].
    set (q := f _) in *. assert (E1 : (q - f x) / t <= f y - f x).
    { apply Rmult_le_reg_r with t; [lra|]. unfold Rdiv; rewrite Rmult_assoc, Rinv_l; nra. }
    unfold eps in D; lra.
  Qed.
  Lemma below_parabola L f g : 0 < L -> gradient f g -> lipschitz L g ->
    forall x y, f y <= f x + <<g x, y - x>> + L / 2 * ||y - x||^2.
  Proof.
    intros HL G Li x y. set (v := (y - x)%vec). set (b := ||v||^2).
    assert (Hb : 0 <= b) by apply inner_pos.
    set (p := fun t => f (x + t * v)%vec - (inner (g x) v * t + L / 2 * b * t ^ 2)).
    assert (D : forall t, derivable_pt_lim p t
      (inner (g (x + t * v)%vec) v - (inner (g x) v * 1 + L / 2 * b * (2 * t)))).
    { intros t. apply (derivable_pt_lim_minus (fun t => f (x + t * v)%vec)
        (fun t => inner (g x) v * t + L / 2 * b * t ^ 2)).
      - intros e He; destruct (G (x + t * v)%vec v e He) as [d Hd]; exists d; intros h H1 H2.
        specialize (Hd h H1 H2).
        replace (x + t * v + (0 + h)%R * v)%vec with (x + (t + h)%R * v)%vec in Hd by vectors.
        replace (x + t * v + 0 * v)%vec with (x + t * v)%vec in Hd by vectors. exact Hd.
      - apply (derivable_pt_lim_plus (fun t => inner (g x) v * t) (fun t => L / 2 * b * t ^ 2)).
        + apply (derivable_pt_lim_scal id); apply derivable_pt_lim_id.
        + apply (derivable_pt_lim_scal (fun t => t ^ 2)).
          replace (2 * t) with (INR 2 * t ^ pred 2) by (simpl; lra). apply derivable_pt_lim_pow. }
    destruct (MVT_cor2 p _ 0 1 Rlt_0_1 (fun t _ => D t)) as [t [M Ht]].
    assert (H : inner (g (x + t * v)%vec) v - inner (g x) v <= L * t * b).
    { pose proof (Li (x + t * v)%vec x) as H.
      pose proof (inner_pos ((g (x + t * v) - g x) - (L * t)%R * v)%vec) as P.
      replace (x + t * v - x)%vec with (t * v)%vec in H by vectors.
      rewrite inner_scale, inner_scale_r in H. fold b in H.
      rewrite <- inner_sub. set (a := (g (x + t * v) - g x)%vec) in *.
      rewrite inner_sub, !inner_sub_r, !inner_scale, !inner_scale_r, (inner_sym v a) in P.
      fold b in P.
      assert (0 < L * t) by nra. apply Rmult_le_reg_l with (2 * (L * t)); [lra|]. nra. }
    unfold p in M. replace (x + 1 * v)%vec with y in M by (unfold v; vectors).
    replace (x + 0 * v)%vec with x in M by vectors. fold v b. nra.
  Qed.
  Theorem textbook L f g : 0 < L -> convex f -> gradient f g -> lipschitz L g ->
    smooth_convex 0 L f g.
  Proof.
    intros; split; [intros x y; pose proof (tangent f g H0 H1 x y); lra|].
    apply below_parabola; assumption.
  Qed.
End Textbook.
Print Assumptions textbook.
