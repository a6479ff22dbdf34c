(** FedDyn's and FedElasticNet's round as sums of squares, in any inner-product space.

    [feddyn.v] and [fedelasticnet.v] have the theorems about the rounds. *)
From Coq Require Import Reals List Lra Lia.
From Fedtheory Require Import facts.
Import ListNotations.
Open Scope R_scope.

Ltac turn a b := rewrite ?(inner_sym b a).

Lemma two_squares {F : space} A B C (x y : F) : 0 <= A -> 0 <= C -> B * B <= A * C ->
  0 <= A * ||x||^2 + 2 * B * <<x, y>> + C * ||y||^2.
Proof.
  intros HA HC H. pose proof (inner_pos x) as Hx. pose proof (inner_pos y) as Hy.
  destruct (Req_dec A 0) as [-> | n].
  - assert (B = 0) as -> by nra. nra.
  - apply Rmult_le_reg_l with A; [lra|]. pose proof (inner_pos (A * x + B * y)%vec) as P.
    expand. rewrite (inner_sym y x) in P. nra.
Qed.
Lemma weighed {F : space} a (x : F) : 0 <= a -> 0 <= a * ||x||^2.
Proof. intros; apply Rmult_le_pos; [assumption | apply inner_pos]. Qed.
Lemma both a b : 0 <= a -> 0 <= b -> 0 <= a + b. Proof. lra. Qed.
Lemma by_difference a b c : 0 <= c -> b - a = c -> a <= b. Proof. lra. Qed.

(** Means [U V W P] over the clients and deviations [u v w p] from them, of the stored gradient,
    the one at the new local model, the one at gamma, and the pull of a penalty. [d] is gamma -
    x*. *)
Section Core.
  Context {F : space} (lam s q K py pg : R) (u v w p U V W P d : F).
  Hypothesis lam_pos : 0 < lam.
  Hypothesis apart : forall X x, In X [d; U; V; W; P]%list -> In x [u; v; w;
    p]%list -> <<X, x>> = 0.

  Ltac split_ X := turn X u; turn X v; turn X w; turn X p;
    rewrite ?(apart X u), ?(apart X v), ?(apart X w), ?(apart X p) by (simpl; tauto).
  Ltac expanded := unfold sub; repeat (rewrite ?inner_add, ?inner_scale, ?inner_zero);
    repeat (rewrite ?inner_add_r, ?inner_scale_r, ?inner_zero_r); split_ d; split_ U; split_ V;
      split_ W; split_ P;
    turn u v; turn u w; turn u p; turn v w; turn v p; turn w p;
    turn d U; turn d V; turn d W; turn d P; turn U V; turn U W; turn U P; turn V W; turn V P;
      turn W P.
  Ltac one a b := let H := fresh in let e := open_constr:(_ : R) in
    assert (H : inner a b = e) by (expanded; reflexivity); rewrite H; clear H.
  Ltac gram := unfold sub; repeat match goal with
    | |- context [inner (add ?x ?y) ?b] => one constr:(add x y) b
    | |- context [inner (scale ?x ?y) ?b] => one constr:(scale x y) b
    | |- context [inner ?a (add ?x ?y)] => one a constr:(add x y)
    | |- context [inner ?a (scale ?x ?y)] => one a constr:(scale x y)
    end.
  Ltac numbers := repeat match goal with |- context [inner ?a ?b] => let x :=
    fresh in generalize (inner a b); intro x end.

  Let y := (d - / lam * U + / lam * ((U + u) - (V + v) - (P + p)))%vec.
  Hypothesis above : py <= << V + v, y >> - / 2 * ||V + v||^2.
  Hypothesis below : / 2 * ||V + v||^2 <= py.
  Hypothesis near : pg + << W + w, y - d >> + / 2 * ||(V + v) - (W + w)||^2 <= py.
  Let conditions :=
    2 * / lam * (<< V + v, y >> - / 2 * ||V + v||^2 - py) + 2 * (/ lam - q) * (py - / 2 * ||V
      + v||^2)
    + 2 * q * (py - (pg + << W + w, y - d >> + / 2 * ||(V + v) - (W + w)||^2)).
  Lemma conditions_hold : 0 <= q <= / lam -> 0 <= conditions.
  Proof.
    intros Hq. unfold conditions. assert (0 < / lam) by (apply Rinv_0_lt_compat; lra).
    repeat apply both; apply Rmult_le_pos; lra.
  Qed.

  Let after := ||d - / lam * (V + P)||^2 + (1 - s) / lam ^ 2 * ||u - v - p||^2
    + K / lam ^ 2 * ||V + v||^2.
  Let before := ||d||^2 + K / lam ^ 2 * ||U + u||^2 - 2 * q * pg - 2 * / lam * <<d, P>>.
  Lemma dyn_core : (forall z, <<P, z>> = 0) -> (forall z, <<p, z>> = 0) -> 0 <= q <= / lam ->
    let A := K - (1 - s) - q in let C := 1 + s + 2 * lam - K - q * (1 + lam) ^ 2 in
    let B := q * (1 + lam) - s in
    0 <= A -> s <= C -> 0 <= s -> B * B <= A * C -> 0 <= K -> after <= before.
  Proof.
    intros zP zp Hq A C B HA HC Hs HB HK.
    apply by_difference with (conditions + / lam ^ 2 * ((A * ||u||^2 + 2 * B * <<u, v>>
      + C * ||v||^2)
      + K * ||U||^2 + (C - s) * ||V||^2 + q * ||lam * W - (1 + lam)%R * V||^2
      + q * ||lam * w + u - (1 + lam)%R * v||^2)).
    - apply both; [apply conditions_hold, Hq | apply Rmult_le_pos; [left; apply Rinv_0_lt_compat;
      nra|]].
      pose proof (two_squares A B C u v HA ltac:(lra) HB) as T.
      match type of T with 0 <= ?t => generalize dependent t end.
      intros; repeat apply both; [assumption | ..]; apply weighed; lra.
    - subst A C B after before conditions y. gram.
      rewrite ?zP, ?zp, ?(inner_sym _ P), ?(inner_sym _ p), ?zP, ?zp. numbers. field; lra.
  Qed.

  Hypothesis pulled : 0 <= << P + p, (U + u) - (V + v) - (P + p) >>.
  Let given := conditions + K / lam ^ 2 * << P + p, (U + u) - (V + v) - (P + p) >>.
  Let squares := q * ||lam * W - P - (1 + lam)%R * V||^2 + K * ||U - / 2 * P||^2
    + s * ||u - v - p||^2 + q * ||lam * w + (u - v - p) - lam * v||^2.
  Lemma given_and_squares : 0 <= q <= / lam -> 0 <= K -> 0 <= s -> 0 <= given /\ 0 <= squares.
  Proof.
    intros Hq HK Hs. split.
    - apply both; [apply conditions_hold, Hq | apply Rmult_le_pos; [|exact pulled]].
      apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; nra].
    - unfold squares. repeat apply both; apply weighed; lra.
  Qed.

  Lemma elastic_near : 0 <= s -> lam ^ 2 <= 4 * lam + 4 -> 2 * lam + 4 <= 3 * lam ^ 2 ->
    q = 2 * lam / (2 + lam) ^ 2 -> K = (2 + 3 * lam) / (2 + lam) -> after <= before.
  Proof.
    intros Hs near_ far Hq HK. set (a := q * (1 + lam)).
    assert (Q0 : 0 < q) by (rewrite Hq; apply Rmult_lt_0_compat; [lra | apply Rinv_0_lt_compat;
      nra]).
    assert (Q1 : q <= / lam).
    { apply Rmult_le_reg_l with (lam * (2 + lam) ^ 2); [nra|]. rewrite Hq. field_simplify;
      [nra | lra | lra]. }
    assert (K0 : 0 < K) by (rewrite HK; apply Rmult_lt_0_compat; [|apply Rinv_0_lt_compat]; lra).
    assert (a0 : 0 < a) by (unfold a; nra).
    assert (a3 : K <= 3 * a).
    { unfold a; rewrite Hq, HK. apply Rmult_le_reg_l with ((2 + lam) ^ 2); [nra|]. field_simplify;
      [nra | lra | lra]. }
    assert (k0 : 0 < K / (4 * a)) by (apply Rmult_lt_0_compat; [lra | apply Rinv_0_lt_compat;
      lra]).
    apply by_difference with (given + / lam ^ 2 * (squares
      + a * ||V + (K / (2 * a) - 1)%R * P||^2 + K / (4 * a) * (3 * a - K) * ||P||^2
      + a * ||(u - v - p) + 2 * v + (K / (2 * a))%R * p||^2
        + K / (4 * a) * (4 * a - K) * ||p||^2)).
    - destruct given_and_squares as [G S]; try lra.
      apply both; [exact G | apply Rmult_le_pos; [left; apply Rinv_0_lt_compat; nra|]].
      clearbody squares. repeat apply both; [exact S | ..]; apply weighed; try lra;
        apply Rmult_le_pos; lra.
    - subst a before after given conditions squares y. rewrite HK, Hq. gram. numbers. field.
    repeat split; nra.
  Qed.

  Lemma elastic_far : 0 <= s -> 4 * lam + 4 <= lam ^ 2 -> q = / lam -> K = lam / 2 -> after
    <= before.
  Proof.
    intros Hs far Hq HK. set (e := lam / 4 - (1 + / lam)).
    assert (e0 : 0 <= e) by (unfold e; apply Rmult_le_reg_l with lam; [|field_simplify]; nra).
    set (m := e + lam / 4). assert (m0 : 0 < m) by (unfold m; lra).
    assert (Hl : 0 < / lam) by (apply Rinv_0_lt_compat; lra).
    apply by_difference with (given + / lam ^ 2 * (squares
      + m * ||V + (e / m)%R * P||^2 + (lam * (3 * e / 8 + lam / 32) / m) * ||P||^2
      + lam * ||v + / 2 * (u - v - p) + / 2 * p||^2 + e * ||u - v - p||^2 + lam / 4 * ||p||^2)).
    - destruct given_and_squares as [G S]; try lra.
      apply both; [exact G | apply Rmult_le_pos; [left; apply Rinv_0_lt_compat; nra|]].
      clearbody squares. repeat apply both; [exact S | ..]; apply weighed; try lra.
      apply Rmult_le_pos; [apply Rmult_le_pos; lra | left; apply Rinv_0_lt_compat; lra].
    - assert (m <> 0) by lra. assert (M : / m = / (lam / 2 - (1 + / lam))) by (f_equal;
      unfold m, e; lra).
      assert (0 < lam ^ 2 - 2 * lam - 2) by lra.
      unfold Rdiv. rewrite M. subst m e before after given conditions squares y. rewrite HK, Hq.
      gram. numbers. field. split; lra.
  Qed.
End Core.
