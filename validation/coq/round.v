(** From a round of FedDyn or FedElasticNet to the inner products of its sum of squares. *)
From Coq Require Import Reals List Lra Lia Compare_dec FunctionalExtensionality.
From Fedtheory Require Import facts cohorts.
From Theorems Require Import squares.
Import ListNotations.
Open Scope R_scope.

(** * Definitions *)
Section Round.
  Context {E : space} (N P : nat) (lambda : R) (g : nat -> E -> E).

  (** After a round in which [who] took part and had the local models [y], its members store their
      gradients there and the others keep theirs. The server's model is the members' mean less
      the mean of what is stored, divided by lambda. *)
  Definition stored (who : cohort) (h y : nat -> E) (k : nat) : E :=
    if who k then g k (y k) else h k.
  Definition model (who : cohort) (h y : nat -> E) : E :=
    (cohort_mean N P who y - / lambda * vmean N (stored who h y))%vec.

  (** The potential of the model [x] and the stored gradients [h]: gamma is the members' mean of
      local models once a round is over. *)
  Definition gamma (x : E) (h : nat -> E) : E := (x + / lambda * vmean N h)%vec.
  Definition potential (kappa : R) (xs x : E) (h : nat -> E) : R :=
    ||gamma x h - xs||^2 + kappa * mean N (fun k => ||h k - g k xs||^2).
End Round.

(** * Families of vectors, one for each client, are a space *)
Lemma mean_pos_ N u : (forall k, (k < N)%nat -> 0 <= u k) -> 0 <= mean N u.
Proof. destruct N; [unfold mean; simpl; lra | apply mean_pos; lia]. Qed.
Lemma sum_0 n u : (forall k, (k < n)%nat -> 0 <= u k) -> sum n u = 0 -> forall k, (k < n)%nat ->
  u k = 0.
Proof.
  induction n; simpl; intros P S k Hk; [lia|].
  assert (0 <= u n) by (apply P; lia). assert (0 <= sum n u) by (apply sum_pos; intros; apply P;
    lia).
  destruct (Nat.eq_dec k n) as [-> | D]; [lra | apply IHn; try lia; [intros; apply P; lia | lra]].
Qed.
Section Families.
  Context (N : nat) (E : space).
  Definition family : Type := {k : nat | (k < N)%nat} -> E.
  Definition family_of (u : nat -> E) : family := fun i => u (proj1_sig i).
  Definition at_ (u : family) (k : nat) : E :=
    match lt_dec k N with left h => u (exist _ k h) | right _ => zero end.
  Lemma at_of u k : (k < N)%nat -> at_ (family_of u) k = u k.
  Proof. intros H; unfold at_; destruct (lt_dec k N); [reflexivity | lia]. Qed.
  Definition families : space.
  Proof.
    refine (Space family (family_of (fun _ => zero)) (fun u v i => add (u i) (v i))
      (fun a u i => scale a (u i)) (fun u v => mean N (fun k => inner (at_ u k) (at_ v k))) _ _ _
        _ _ _).
    - intros; apply mean_ext; intros; apply inner_sym.
    - intros; rewrite (mean_ext N _ (fun _ => 0 * 0)).
      + rewrite mean_times; lra.
      + intros; rewrite at_of, inner_zero by assumption; lra.
    - intros; rewrite <- mean_plus; apply mean_ext; intros k Hk; rewrite <- inner_add.
      f_equal; unfold at_; destruct (lt_dec k N); [reflexivity | lia].
    - intros; rewrite <- mean_times; apply mean_ext; intros k Hk; rewrite <- inner_scale.
      f_equal; unfold at_; destruct (lt_dec k N); [reflexivity | lia].
    - intros; apply mean_pos_; intros; apply inner_pos.
    - intros u v Z. extensionality i. destruct i as [k Hk]. apply inner_definite.
      assert (P : 0 < / INR N) by (apply Rinv_0_lt_compat, lt_0_INR; lia).
      assert (S0 : sum N (fun k => inner (at_ (fun i => add (u i) (scale (-1) (v i))) k)
        (at_ (fun i => add (u i) (scale (-1) (v i))) k)) = 0) by (unfold mean in Z; nra).
      pose proof (sum_0 N _ (fun k _ => inner_pos _) S0 k Hk) as S1. cbv beta in S1.
      unfold at_ in S1. destruct (lt_dec k N) as [h | h]; [|lia].
      rewrite (Peano_dec.le_unique _ _ h Hk) in S1. exact S1.
  Defined.
  Definition of (u : nat -> E) : families := family_of u.
  Lemma alike_of u v : (forall k, (k < N)%nat -> forall z, inner (u k) z = inner (v k) z) ->
    forall z, inner (of u) z = inner (of v) z.
  Proof.
    intros H z. cbn [inner families]. apply mean_ext; intros k Hk. unfold of; rewrite !at_of; auto.
  Qed.
  Lemma of_inner u v : inner (of u) (of v) = mean N (fun k => inner (u k) (v k)).
  Proof. cbn [inner families]. apply mean_ext; intros; unfold of; rewrite !at_of; auto. Qed.
End Families.

Definition alike {E : space} (a b : E) : Prop := forall z, inner a z = inner b z.
Lemma same_square {E : space} (a b : E) : alike a b -> ||a||^2 = ||b||^2.
Proof. intros H; rewrite H, inner_sym, H; reflexivity. Qed.

Section Reduction.
  Context {E : space} (N P : nat) (C : cohorts N P) (L lam : R).
  Context (f : nat -> E -> R) (g : nat -> E -> E) (xs x : E) (h y pull : nat -> E).
  Hypothesis some : (1 <= N)%nat.
  Hypothesis some_part : (1 <= P)%nat.
  Hypothesis L_pos : 0 < L.
  Hypothesis lam_pos : 0 < lam.
  Hypothesis in_class : forall k, (k < N)%nat -> smooth_convex 0 L (f k) (g k).
  Hypothesis optimal : forall z, objective N f xs <= objective N f z.
  Hypothesis solved : forall k z, (k < N)%nat ->
    << g k (y k) + pull k - h k + (lam * L)%R * (y k - x), z >> = 0.

  Let G := gamma N (lam * L) x h.
  Let F := families N E.
  Let o (u : nat -> E) : F := of N E u.
  Definition all (a : E) (k : nat) : E := a.
  Definition average (u : nat -> E) : nat -> E := all (vmean N u).
  Definition rest (u : nat -> E) (k : nat) : E := (u k - vmean N u)%vec.
  Definition old (k : nat) : E := (/ L * (h k - g k xs))%vec.
  Definition new (k : nat) : E := (/ L * (g k (y k) - g k xs))%vec.
  Definition there (k : nat) : E := (/ L * (g k G - g k xs))%vec.
  Definition pulls (k : nat) : E := (/ L * pull k)%vec.
  Definition away : nat -> E := all (G - xs)%vec.
  Definition fallen : R := / L * (objective N f G - objective N f xs).
  Definition local_gap : R := / L * mean N (fun k => f k (y k) - f k xs - << g k xs, y k - xs >>).

  Lemma o_inner u v : inner (o u) (o v) = mean N (fun k => inner (u k) (v k)).
  Proof. apply of_inner. Qed.
  Lemma all_inner a u : inner (o (all a)) (o u) = inner (vmean N u) a.
  Proof. rewrite o_inner, inner_vmean. apply mean_ext; intros; apply inner_sym. Qed.
  Lemma vmean_average u : alike (vmean N (average u)) (vmean N u).
  Proof. intros z. rewrite inner_vmean. exact (mean_const N some (inner (vmean N u) z)). Qed.
  Lemma apart a u : inner (o (all a)) (o (rest u)) = 0.
  Proof.
    rewrite all_inner, inner_vmean. unfold rest.
    rewrite (mean_ext N _ (fun k => inner (u k) a - inner (vmean N u) a)) by (intros;
      apply inner_sub).
    rewrite mean_minus, mean_const, <- inner_vmean by assumption; lra.
  Qed.
  Let full (u : nat -> E) : F := (o (average u) + o (rest u))%vec.
  Lemma parts u : alike (full u) (o u).
  Proof.
    refine (alike_of N E (fun k => add (average u k) (rest u k)) u _). intros k _ z.
    unfold average, all, rest; expand; lra.
  Qed.

  Lemma flat : alike (vmean N (fun k => g k xs)) zero.
  Proof.
    intros z. set (size := mean N (fun k => ||g k xs||^2)).
    rewrite inner_zero. apply (stationary N 0 L 0 (1 + size) f g xs xs L_pos).
    assert (0 <= size) by (apply mean_pos_; intros; apply inner_pos).
    constructor; try assumption; [expand; lra | fold size; nra].
  Qed.
  Lemma mean_old : alike (vmean N h) (L * vmean N old)%vec.
  Proof.
    intros z. rewrite inner_scale, !inner_vmean.
    rewrite (mean_ext N (fun k => <<old k, z>>) (fun k => / L * (<<h k, z>> - inner (g k xs) z)))
      by (intros; unfold old; rewrite inner_scale, inner_sub; reflexivity).
    rewrite mean_times, mean_minus, <- (inner_vmean N (fun k => g k xs)), flat, inner_zero. field;
      lra.
  Qed.

  (** The new local models, seen from the optimum. *)
  Lemma moved k : (k < N)%nat ->
    alike (y k - xs)%vec (G - xs - / lam * vmean N old + / lam * (old k - new k - pulls k))%vec.
  Proof.
    intros Hk z. pose proof (solved k z Hk) as S. pose proof (mean_old z) as M.
    unfold G, gamma. unfold old at 2, new, pulls. expand. rewrite M. clear M.
    apply Rmult_eq_reg_l with (lam * L); [|nra]. field_simplify; lra.
  Qed.
  Lemma mean_moved : alike (vmean N y - xs)%vec (G - xs - / lam * (vmean N new
    + vmean N pulls))%vec.
  Proof.
    intros z. transitivity (mean N (fun k => << y k - xs, z >>)).
    - rewrite (mean_ext N _ (fun k => <<y k, z>> - <<xs, z>>)) by (intros; apply inner_sub).
      rewrite mean_minus, mean_const, inner_sub, inner_vmean by assumption; reflexivity.
    - rewrite (mean_ext N _ (fun k => << G - xs - / lam * vmean N old, z >> + / lam * (<<old k,
      z>> - <<new k, z>> - <<pulls k, z>>)))
        by (intros k Hk; rewrite (moved k Hk); expand; lra).
      rewrite mean_plus, mean_const, mean_times, !mean_minus, <- !inner_vmean by assumption.
      expand. lra.
  Qed.
  Lemma spread_out k : (k < N)%nat -> alike (y k - vmean N y)%vec (/ lam * (rest old k - rest new k
    - rest pulls k))%vec.
  Proof.
    intros Hk z. pose proof (moved k Hk z) as M. pose proof (mean_moved z) as A.
    unfold rest. expand. lra.
  Qed.

  (** What the sum of squares is about: the expected potential, and the losses' conditions. *)
  Lemma expected_potential kappa :
    expected C (fun who => potential N (lam * L) g (kappa / L ^ 2) xs (model N P (lam * L) g who h
      y) (stored g who h y))
    = ||o away - / lam * (o (average new) + o (average pulls))||^2
      + sampling_spread N P / lam ^ 2 * ||o (rest old) - o (rest new) - o (rest pulls)||^2
      + kappa * ||o old||^2 + kappa * (INR P / INR N) * (||o new||^2 - ||o old||^2).
  Proof.
    unfold potential. rewrite expected_plus, expected_times.
    rewrite (expected_ext C (fun who => mean N (fun k => ||stored g who h y k - g k xs||^2))
      (fun who => mean N (fun k => if who k then ||g k (y k) - g k xs||^2 else ||h k - g k
        xs||^2)))
      by (intros; apply mean_ext; intros; unfold stored; destruct (who k); reflexivity).
    rewrite expected_changed by assumption.
    rewrite (expected_ext C (fun who => ||gamma _ _ _ _ - xs||^2) (fun who => ||cohort_mean N P
      who y - xs||^2)).
    2: { intros; apply same_square; intros z; unfold gamma, model; expand; lra. }
    rewrite sampling_from by assumption.
    rewrite (same_square _ _ mean_moved).
    rewrite (mean_ext N (fun k => ||y k - vmean N y||^2) (fun k => / lam * / lam * ||rest old k -
      rest new k - rest pulls k||^2)).
    2: { intros k Hk; rewrite (same_square _ _ (spread_out k Hk)), inner_scale, inner_scale_r;
      lra. }
    rewrite mean_times.
    assert (Q : forall u r : nat -> E, (forall k, r k = / L * u k)%vec ->
      / L ^ 2 * mean N (fun k => ||u k||^2) = ||o r||^2).
    { intros u r H. rewrite o_inner, <- mean_times. apply mean_ext; intros k _.
      rewrite H, inner_scale, inner_scale_r. field; lra. }
    rewrite <- (Q (fun k => h k - g k xs)%vec old),
      <- (Q (fun k => g k (y k) - g k xs)%vec new) by reflexivity.
    set (v := (G - xs - / lam * (vmean N new + vmean N pulls))%vec).
    replace (inner (o away - _)%vec _) with ||v||^2
      by (symmetry; transitivity (mean N (fun _ => ||v||^2));
        [exact (of_inner N E (all v) (all v)) | exact (mean_const N some ||v||^2)]).
    set (w := fun k => (rest old k - rest new k - rest pulls k)%vec).
    replace (inner (o (rest old) - _ - _)%vec _) with (mean N (fun k => ||w k||^2))
      by (symmetry; exact (of_inner N E w w)).
    change (fun k => ||rest old k - rest new k - rest pulls k||^2) with (fun k => ||w k||^2).
    field. repeat split; try lra; apply not_0_INR; lia.
  Qed.

  Let Y : F := (o away - / lam * o (average old) + / lam * (full old - full new - full pulls))%vec.
  Let Yk (k : nat) : E := (G - xs - / lam * vmean N old + / lam *
    ((vmean N old + rest old k) - (vmean N new + rest new k) - (vmean N pulls
      + rest pulls k)))%vec.
  Lemma Y_is k : (k < N)%nat -> alike (Yk k) (y k - xs)%vec.
  Proof. intros Hk z. rewrite (moved k Hk z). unfold Yk, rest. expand. lra. Qed.
  Lemma between k a b : (k < N)%nat -> f k a + << g k a, b - a >>
    + / (2 * L) * ||g k b - g k a||^2 <= f k b.
  Proof.
    intros Hk. destruct (in_class k Hk) as [below above].
    apply (interpolation0 L (f k) (g k) L_pos); [|exact above].
    intros u v; specialize (below u v); lra.
  Qed.
  Lemma scaled k a b : (k < N)%nat ->
    / L * f k a + / L * << g k a, b - a >> + / 2 * ||/ L * g k b - / L * g k a||^2 <= / L * f k b.
  Proof.
    intros Hk. pose proof (between k a b Hk) as B. apply Rmult_le_compat_l with (r := / L) in B;
      [|left; apply Rinv_0_lt_compat, L_pos].
    eapply Rle_trans; [|exact B]. right. unfold sub; expand. rewrite (inner_sym (g k a) (g k b)).
    field; lra.
  Qed.
  Lemma product_of u (v : F) w : alike v (o w) -> <<full u, v>> = mean N (fun k => <<u k, w k>>).
  Proof. intros H. rewrite parts, inner_sym, H, inner_sym. apply of_inner. Qed.
  Lemma square_of u : ||full u||^2 = mean N (fun k => ||u k||^2).
  Proof. rewrite (same_square _ _ (parts u)). apply of_inner. Qed.
  Lemma square_of_both u v : ||full u - full v||^2 = mean N (fun k => ||u k - v k||^2).
  Proof.
    rewrite (same_square (full u - full v)%vec (o u - o v)%vec).
    - exact (of_inner N E (fun k => u k - v k)%vec (fun k => u k - v k)%vec).
    - intros z. rewrite !inner_sub, !parts. reflexivity.
  Qed.
  Lemma Y_alike : alike Y (o (fun k => y k - xs)%vec).
  Proof. exact (alike_of N E Yk (fun k => y k - xs)%vec Y_is). Qed.

  Lemma above : local_gap <= <<full new, Y>> - / 2 * ||full new||^2.
  Proof.
    rewrite (product_of new Y (fun k => y k - xs)%vec Y_alike), square_of.
    unfold local_gap. rewrite <- !mean_times, <- mean_minus. apply (mean_le N some); intros k Hk.
    pose proof (scaled k (y k) xs Hk) as S. unfold new. expand.
    rewrite ?(inner_sym (g k (y k)) (g k xs)) in *. lra.
  Qed.
  Lemma below : / 2 * ||full new||^2 <= local_gap.
  Proof.
    rewrite square_of. unfold local_gap. rewrite <- !mean_times. apply (mean_le N some);
      intros k Hk.
    pose proof (scaled k xs (y k) Hk) as S. unfold new. expand.
    rewrite ?(inner_sym (g k (y k)) (g k xs)) in *. lra.
  Qed.
  Lemma near : fallen + <<full there, Y - o away>> + / 2 * ||full new - full there||^2
    <= local_gap.
  Proof.
    rewrite (product_of there (Y - o away)%vec (fun k => y k - G)%vec), square_of_both.
    2: { intros z. rewrite inner_sub, (Y_alike z), <- inner_sub. revert z.
      refine (alike_of N E (fun k => y k - xs - (G - xs))%vec (fun k => y k - G)%vec _).
      intros; expand; lra. }
    assert (B : fallen = mean N (fun k => / L * (f k G - f k xs - << g k xs, G - xs >>))).
    { rewrite mean_times, mean_minus, <- (inner_vmean N (fun k => g k xs)), flat, inner_zero,
      mean_minus.
      unfold fallen, objective; lra. }
    rewrite B. unfold local_gap. rewrite <- !mean_times, <- !mean_plus. apply (mean_le N some);
      intros k Hk.
    pose proof (scaled k G (y k) Hk) as S. unfold new, there. expand.
    rewrite ?(inner_sym (g k (y k)) (g k xs)), ?(inner_sym (g k G) (g k xs)),
      ?(inner_sym (g k (y k)) (g k G)) in *. lra.
  Qed.
  Lemma pulled : (forall k, (k < N)%nat -> 0 <= << pull k, y k - x >>) ->
    0 <= <<full pulls, full old - full new - full pulls>>.
  Proof.
    intros H.
    rewrite (product_of pulls (full old - full new - full pulls)%vec (fun k => lam * (y k -
      x))%vec).
    - apply mean_pos_; intros k Hk. unfold pulls. rewrite inner_scale, inner_scale_r.
      apply Rmult_le_pos; [left; apply Rinv_0_lt_compat, L_pos|].
      apply Rmult_le_pos; [lra | apply H, Hk].
    - intros z. rewrite !inner_sub, !parts, <- !inner_sub. revert z.
      refine (alike_of N E (fun k => old k - new k - pulls k)%vec (fun k => lam * (y k - x))%vec
        _).
      intros k Hk z. pose proof (solved k z Hk) as S. unfold old, new, pulls. expand.
      apply Rmult_eq_reg_l with L; [|lra]. field_simplify; lra.
  Qed.

  (** The potential falls, by q and K and up to what the penalty pulls. *)
  Definition falls (q K : R) : Prop :=
    let V := potential N (lam * L) g (INR N / INR P * K / lam ^ 2 / L ^ 2) xs in
    expected C (fun who => V (model N P (lam * L) g who h y) (stored g who h y))
    <= V x h - 2 * q / L * (objective N f G - objective N f xs) - 2 / (lam * L) * << G - xs,
      vmean N pull >>.
  Lemma falls_if q K :
    ||o away - / lam * (o (average new) + o (average pulls))||^2
      + (1 - (1 - sampling_spread N P)) / lam ^ 2 * ||o (rest old) - o (rest new) - o (rest
        pulls)||^2
      + K / lam ^ 2 * ||full new||^2
    <= ||o away||^2 + K / lam ^ 2 * ||full old||^2 - 2 * q * fallen
      - 2 * / lam * <<o away, o (average pulls)>> -> falls q K.
  Proof.
    intros H. unfold falls. rewrite expected_potential. rewrite !square_of in H.
    rewrite !(o_inner old), !(o_inner new).
    unfold potential. fold G.
    assert (A : ||o away||^2 = ||G - xs||^2)
      by (rewrite o_inner; exact (mean_const N some ||G - xs||^2)).
    assert (O : mean N (fun k => ||h k - g k xs||^2) = L ^ 2 * mean N (fun k => ||old k||^2)).
    { rewrite <- mean_times. apply mean_ext; intros k _. unfold old.
    rewrite inner_scale, inner_scale_r. field; lra. }
    assert (B : << o away, o (average pulls) >> = / L * << G - xs, vmean N pull >>).
    { unfold away. rewrite all_inner, vmean_average, (inner_sym (G - xs)%vec), !inner_vmean.
      rewrite <- mean_times. apply mean_ext; intros; unfold pulls; apply inner_scale. }
    rewrite A, B in H. rewrite O. unfold fallen in H.
    set (b := mean N (fun k => ||old k||^2)) in *. set (n := mean N (fun k => ||new k||^2)) in *.
    assert (INR N <> 0 /\ INR P <> 0) as [HN HP] by (split; apply not_0_INR; lia).
    replace (INR N / INR P * K / lam ^ 2 / L ^ 2 * (L ^ 2 * b))
      with (INR N / INR P * K / lam ^ 2 * b) by (field; repeat split; lra).
    replace (INR N / INR P * K / lam ^ 2 * (INR P / INR N) * (n - b))
      with (K / lam ^ 2 * n - K / lam ^ 2 * b) by (field; repeat split; lra).
    replace (2 * q / L) with (2 * q * / L) by (field; lra).
    replace (2 / (lam * L)) with (2 * / lam * / L) by (field; lra). lra.
  Qed.

  Lemma all_apart (X z : F) :
    In X [o away; o (average old); o (average new); o (average there); o (average pulls)] ->
    In z [o (rest old); o (rest new); o (rest there); o (rest pulls)] -> <<X, z>> = 0.
  Proof.
    simpl; intros HX Hz. repeat destruct HX as [<- | HX]; try tauto;
      repeat destruct Hz as [<- | Hz]; try tauto; apply apart.
  Qed.

  Let s := 1 - sampling_spread N P.
  Theorem falls_without_penalty q K : (forall k z, inner (pull k) z = 0) -> 0 <= q <= / lam ->
    let A := K - (1 - s) - q in let B := q * (1 + lam) - s in let D := 1 + s
      + 2 * lam - K - q * (1 + lam) ^ 2 in
    0 <= A -> s <= D -> 0 <= s -> B * B <= A * D -> 0 <= K -> falls q K.
  Proof.
    intros no Hq A B D HA HD Hs HB HK. apply falls_if.
    assert (Z : forall z : F, <<o pulls, z>> = 0).
    { intros z. rewrite (alike_of N E pulls (fun _ => zero)); [apply (inner_zero (s := F))|].
      intros k _ w. unfold pulls. rewrite inner_scale, no, inner_zero. lra. }
    assert (M : forall z : F, << o (average pulls), z >> = 0).
    { intros z. rewrite (alike_of N E (average pulls) (fun _ => zero));
      [apply (inner_zero (s := F))|].
      intros k _ w. unfold average, all. rewrite inner_vmean, inner_zero.
      transitivity (mean N (fun _ => 0)); [|apply (mean_const N some)].
      apply mean_ext; intros; unfold pulls; rewrite inner_scale, no; lra. }
    apply (dyn_core lam s q K local_gap fallen _ _ _ _ _ _ _ _ _ lam_pos all_apart above below
      near); try assumption.
    intros z. pose proof (parts pulls z) as W. unfold full in W. rewrite inner_add, M, Z in W. lra.
  Qed.
  Theorem falls_near : (forall k, (k < N)%nat -> 0 <= << pull k, y k - x >>) -> 0 <= s ->
    lam ^ 2 <= 4 * lam + 4 -> 2 * lam + 4 <= 3 * lam ^ 2 -> falls (2 * lam / (2 + lam) ^ 2) ((2
      + 3 * lam) / (2 + lam)).
  Proof.
    intros H Hs Hn Hf. apply falls_if.
    apply (elastic_near lam s _ _ local_gap fallen _ _ _ _ _ _ _ _ _ lam_pos all_apart above below
      near (pulled H)); auto.
  Qed.
  Theorem falls_far : (forall k, (k < N)%nat -> 0 <= << pull k, y k - x >>) -> 0 <= s ->
    4 * lam + 4 <= lam ^ 2 -> falls (/ lam) (lam / 2).
  Proof.
    intros H Hs Hf. apply falls_if.
    apply (elastic_far lam s _ _ local_gap fallen _ _ _ _ _ _ _ _ _ lam_pos all_apart above below
      near (pulled H)); auto.
  Qed.
End Reduction.
