(** From a round of FedDyn or FedElasticNet to the inner products of its sum of squares. *)
From Coq Require Import Reals List Lra Lia.
From Fedtheory Require Import facts.
From Theorems Require Import cohorts squares.
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

  (** The potential of the model [x] and the stored gradients [h]: gamma is
      the members' mean of local models once a round is over. *)
  Definition gamma (x : E) (h : nat -> E) : E := (x + / lambda * vmean N h)%vec.
  Definition potential (kappa : R) (xs x : E) (h : nat -> E) : R :=
    ||gamma x h - xs||^2 + kappa * mean N (fun k => ||h k - g k xs||^2).
End Round.

(** * Families of vectors, one for each client, are a space *)
Lemma mean_pos_ N u : (forall k, (k < N)%nat -> 0 <= u k) -> 0 <= mean N u.
Proof. destruct N; [unfold mean; simpl; lra | apply mean_pos; lia]. Qed.
Definition families (N : nat) (E : space) : space.
Proof.
  refine (Space (nat -> E) (fun _ => zero) (fun u v k => add (u k) (v k))
    (fun a u k => scale a (u k)) (fun u v => mean N (fun k => inner (u k) (v k))) _ _ _ _ _).
  - intros; apply mean_ext; intros; apply inner_sym.
  - intros; rewrite (mean_ext N _ (fun _ => 0 * 0)) by (intros; rewrite inner_zero; lra).
  rewrite mean_times; lra.
  - intros; rewrite <- mean_plus; apply mean_ext; intros; apply inner_add.
  - intros; rewrite <- mean_times; apply mean_ext; intros; apply inner_scale.
  - intros; apply mean_pos_; intros; apply inner_pos.
Defined.

Definition same {E : space} (a b : E) : Prop := forall z, inner a z = inner b z.
Lemma same_square {E : space} (a b : E) : same a b -> ||a||^2 = ||b||^2.
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
  Definition all (a : E) : F := fun _ => a.
  Definition average (u : F) : F := all (vmean N u).
  Definition rest (u : F) : F := (u - average u)%vec.
  Definition old : F := fun k => (/ L * (h k - g k xs))%vec.
  Definition new : F := fun k => (/ L * (g k (y k) - g k xs))%vec.
  Definition there : F := fun k => (/ L * (g k G - g k xs))%vec.
  Definition pulls : F := fun k => (/ L * pull k)%vec.
  Definition away : F := all (G - xs)%vec.
  Definition fallen : R := / L * (objective N f G - objective N f xs).
  Definition local_gap : R := / L * mean N (fun k => f k (y k) - f k xs - << g k xs, y k - xs >>).

  Lemma all_inner a (u : F) : inner (all a) u = inner a (vmean N u).
  Proof. rewrite (inner_sym a), inner_vmean. apply mean_ext; intros; apply inner_sym. Qed.
  Lemma vmean_all a : same (vmean N (all a)) a.
  Proof. intros z. rewrite inner_vmean. exact (mean_const N some (inner a z)). Qed.
  Lemma vmean_average (u : F) : same (vmean N (average u)) (vmean N u).
  Proof. apply vmean_all. Qed.
  Lemma apart a (u : F) : inner (all a) (rest u) = 0.
  Proof.
    unfold rest, sub. rewrite inner_add_r, inner_scale_r, !all_inner, !(inner_sym a),
      vmean_average; lra.
  Qed.
  Lemma parts (u : F) : same (average u + rest u)%vec u.
  Proof. intros z; unfold rest; expand; lra. Qed.

  Lemma flat : same (vmean N (fun k => g k xs)) zero.
  Proof.
    intros z. set (size := mean N (fun k => ||g k xs||^2)).
    rewrite inner_zero. apply (stationary N 0 L 0 (1 + size) f g xs xs L_pos).
    assert (0 <= size) by (apply mean_pos_; intros; apply inner_pos).
    constructor; try assumption; [expand; lra | fold size; nra].
  Qed.
  Lemma mean_old : same (vmean N h) (L * vmean N old)%vec.
  Proof.
    intros z. rewrite inner_scale, !inner_vmean.
    rewrite (mean_ext N (fun k => <<old k, z>>) (fun k => / L * (<<h k, z>> - inner (g k xs) z)))
      by (intros; unfold old; rewrite inner_scale, inner_sub; reflexivity).
    rewrite mean_times, mean_minus, <- (inner_vmean N (fun k => g k xs)), flat, inner_zero. field;
      lra.
  Qed.

  (** The new local models, seen from the optimum. *)
  Lemma moved k : (k < N)%nat ->
    same (y k - xs)%vec (G - xs - / lam * vmean N old + / lam * (old k - new k - pulls k))%vec.
  Proof.
    intros Hk z. pose proof (solved k z Hk) as S. pose proof (mean_old z) as M.
    unfold G, gamma. unfold old at 2, new, pulls. expand. rewrite M. clear M.
    apply Rmult_eq_reg_l with (lam * L); [|nra]. field_simplify; lra.
  Qed.
  Lemma mean_moved : same (vmean N y - xs)%vec (G - xs - / lam * (vmean N new
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
  Lemma spread_out k : (k < N)%nat -> same (y k - vmean N y)%vec (/ lam * (rest old k - rest new k
    - rest pulls k))%vec.
  Proof.
    intros Hk z. pose proof (moved k Hk z) as M. pose proof (mean_moved z) as A.
    change (rest old k) with (old k - vmean N old)%vec.
    change (rest new k) with (new k - vmean N new)%vec.
    change (rest pulls k) with (pulls k - vmean N pulls)%vec. expand. lra.
  Qed.

  (** What the sum of squares is about: the expected potential, and the losses' conditions. *)
  Lemma expected_potential kappa :
    expected C (fun who => potential N (lam * L) g (kappa / L ^ 2) xs (model N P (lam * L) g who h
      y) (stored g who h y))
    = ||away - / lam * (average new + average pulls)||^2
      + spread N P / lam ^ 2 * ||rest old - rest new - rest pulls||^2
      + kappa * ||old||^2 + kappa * (INR P / INR N) * (||new||^2 - ||old||^2).
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
    assert (Q : forall (u : nat -> E) (r : F), (forall k, r k = / L * u k)%vec ->
      / L ^ 2 * mean N (fun k => ||u k||^2) = ||r||^2).
    { intros u r H. cbn [inner F families]. rewrite <- mean_times. apply mean_ext; intros k _.
    rewrite H, inner_scale, inner_scale_r. field; lra. }
    rewrite <- (Q (fun k => h k - g k xs)%vec old),
      <- (Q (fun k => g k (y k) - g k xs)%vec new) by reflexivity.
    replace (inner (away - _)%vec _) with ||G - xs - / lam * (vmean N new + vmean N pulls)||^2.
    2: { symmetry. exact (mean_const N some ||G - xs - / lam * (vmean N new + vmean N pulls)||^2).
    }
    change (||rest old - rest new - rest pulls||^2)
      with (mean N (fun k => ||rest old k - rest new k - rest pulls k||^2)).
    field. repeat split; try lra; apply not_0_INR; lia.
  Qed.

  Let Y : F := (away - / lam * average old
    + / lam * ((average old + rest old) - (average new + rest new) - (average pulls
      + rest pulls)))%vec.
  Lemma Y_is k : (k < N)%nat -> same (Y k) (y k - xs)%vec.
  Proof.
    intros Hk z. rewrite (moved k Hk z). unfold Y, rest, away, average, all. cbn. unfold sub. cbn.
    expand. lra.
  Qed.
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
  Let full (u : F) : F := (average u + rest u)%vec.
  Lemma product_of (u : F) (v : F) w : (forall k, (k < N)%nat -> same (v k) (w k)) ->
    <<full u, v>> = mean N (fun k => <<u k, w k>>).
  Proof.
    intros H. unfold full. rewrite parts. apply mean_ext; intros k Hk.
    rewrite !(inner_sym (u k)), (H k Hk); reflexivity.
  Qed.
  Lemma square_of (u : F) : ||full u||^2 = mean N (fun k => ||u k||^2).
  Proof. unfold full. rewrite (same_square _ _ (parts u)). reflexivity. Qed.
  Lemma square_of_both (u v : F) : ||full u - full v||^2 = mean N (fun k => ||u k - v k||^2).
  Proof.
    rewrite (same_square (full u - full v)%vec (u - v)%vec); [reflexivity|].
    intros z. rewrite !inner_sub. unfold full. rewrite !parts. reflexivity.
  Qed.
  Let pieces k := f k (y k) - f k xs - << g k xs, y k - xs >>.

  Lemma above : local_gap <= <<full new, Y>> - / 2 * ||full new||^2.
  Proof.
    rewrite (product_of new Y (fun k => y k - xs)%vec), square_of by apply Y_is.
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
  Lemma near : fallen + <<full there, Y - away>> + / 2 * ||full new - full there||^2 <= local_gap.
  Proof.
    rewrite (product_of there (Y - away)%vec (fun k => y k - G)%vec), square_of_both.
    2: { intros k Hk z. change ((Y - away)%vec k) with (Y k - (G - xs))%vec.
    rewrite inner_sub, (Y_is k Hk z). expand; lra. }
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
    intros H. rewrite (product_of pulls (full old - full new - full pulls)%vec (fun k => lam * (y
      k - x))%vec).
    - apply mean_pos_; intros k Hk. unfold pulls. rewrite inner_scale, inner_scale_r.
      apply Rmult_le_pos; [left; apply Rinv_0_lt_compat, L_pos | apply Rmult_le_pos;
        [lra | apply H, Hk]].
    - intros k Hk z. change ((full old - full new - full pulls)%vec k) with
        ((vmean N old + (old k - vmean N old)) - (vmean N new + (new k - vmean N new))
          - (vmean N pulls + (pulls k - vmean N pulls)))%vec.
      pose proof (solved k z Hk) as S. unfold old at 2, new at 2, pulls at 2. expand.
      apply Rmult_eq_reg_l with L; [|lra]. field_simplify; lra.
  Qed.

  (** The potential falls, by q and K and up to what the penalty pulls. *)
  Definition falls (q K : R) : Prop :=
    let V := potential N (lam * L) g (INR N / INR P * K / lam ^ 2 / L ^ 2) xs in
    expected C (fun who => V (model N P (lam * L) g who h y) (stored g who h y))
    <= V x h - 2 * q / L * (objective N f G - objective N f xs) - 2 / (lam * L) * << G - xs,
      vmean N pull >>.
  Lemma falls_if q K :
    ||away - / lam * (average new + average pulls)||^2
      + (1 - (1 - spread N P)) / lam ^ 2 * ||rest old - rest new - rest pulls||^2
        + K / lam ^ 2 * ||full new||^2
    <= ||away||^2 + K / lam ^ 2 * ||full old||^2 - 2 * q * fallen - 2 * / lam * <<away,
      average pulls>> -> falls q K.
  Proof.
    intros H. unfold falls. rewrite expected_potential. rewrite !square_of in H.
    change (||old||^2) with (mean N (fun k => ||old k||^2)).
    change (||new||^2) with (mean N (fun k => ||new k||^2)).
    unfold potential. fold G.
    assert (A : ||away||^2 = ||G - xs||^2) by exact (mean_const N some ||G - xs||^2).
    assert (O : mean N (fun k => ||h k - g k xs||^2) = L ^ 2 * mean N (fun k => ||old k||^2)).
    { rewrite <- mean_times. apply mean_ext; intros k _. unfold old.
    rewrite inner_scale, inner_scale_r. field; lra. }
    assert (B : << away, average pulls >> = / L * << G - xs, vmean N pull >>).
    { unfold away. rewrite all_inner, (inner_sym (G - xs)%vec), vmean_average, !inner_vmean,
      (inner_sym (G - xs)%vec), inner_vmean, <- mean_times.
      apply mean_ext; intros; unfold pulls; apply inner_scale. }
    rewrite A, B in H. rewrite O. unfold fallen in H.
    set (o := mean N (fun k => ||old k||^2)) in *. set (n := mean N (fun k => ||new k||^2)) in *.
    assert (INR N <> 0 /\ INR P <> 0) as [HN HP] by (split; apply not_0_INR; lia).
    replace (INR N / INR P * K / lam ^ 2 / L ^ 2 * (L ^ 2 * o))
      with (INR N / INR P * K / lam ^ 2 * o) by (field; repeat split; lra).
    replace (INR N / INR P * K / lam ^ 2 * (INR P / INR N) * (n - o))
      with (K / lam ^ 2 * n - K / lam ^ 2 * o) by (field; repeat split; lra).
    replace (2 * q / L) with (2 * q * / L) by (field; lra).
    replace (2 / (lam * L)) with (2 * / lam * / L) by (field; lra). lra.
  Qed.

  Lemma all_apart X z : In X [away; average old; average new; average there; average pulls] ->
    In z [rest old; rest new; rest there; rest pulls] -> <<X, z>> = 0.
  Proof. simpl; intros HX Hz. repeat destruct HX as [<- | HX]; try tauto;
    repeat destruct Hz as [<- | Hz]; try tauto; apply apart. Qed.

  Let s := 1 - spread N P.
  Theorem falls_without_penalty q K : (forall k z, inner (pull k) z = 0) -> 0 <= q <= / lam ->
    let A := K - (1 - s) - q in let B := q * (1 + lam) - s in let D := 1 + s
      + 2 * lam - K - q * (1 + lam) ^ 2 in
    0 <= A -> s <= D -> 0 <= s -> B * B <= A * D -> 0 <= K -> falls q K.
  Proof.
    intros no Hq A B D HA HD Hs HB HK. apply falls_if.
    assert (Z : forall z : F, <<pulls, z>> = 0).
    { intros z. transitivity (mean N (fun _ => 0)); [|apply (mean_const N some)].
      apply mean_ext; intros; unfold pulls; rewrite inner_scale, no; lra. }
    assert (M : forall z : F, << average pulls, z >> = 0).
    { intros z. unfold average. rewrite all_inner, inner_vmean.
      transitivity (mean N (fun _ => 0)); [|apply (mean_const N some)].
      apply mean_ext; intros; unfold pulls; rewrite inner_scale, no; lra. }
    apply (dyn_core lam s q K local_gap fallen _ _ _ _ _ _ _ _ _ lam_pos all_apart above below
      near); try assumption.
    intros z; unfold rest; rewrite inner_sub, Z, M; lra.
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
