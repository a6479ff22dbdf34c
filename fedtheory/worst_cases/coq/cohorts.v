(** The sampling lemma of random cohorts, and subsets drawn uniformly. *)
From Coq Require Import Reals List Lra Lia Bool PeanoNat.
From Fedtheory Require Import facts.
From Fedtheory Require Export cohorts_defined.
Import ListNotations.
Open Scope R_scope.

(** * The sampling lemma *)
Lemma sum_swap n m (u : nat -> nat -> R) :
  sum n (fun j => sum m (u j)) = sum m (fun k => sum n (fun j => u j k)).
Proof.
  induction n; simpl; [rewrite sum_const; lra | rewrite IHn, <- sum_plus; reflexivity].
Qed.
Lemma sum_delta n k (u : nat -> R) : (k < n)%nat ->
  sum n (fun j => if j =? k then u j else 0) = u k.
Proof.
  induction n; intros H; [lia | simpl]. destruct (Nat.eq_dec n k) as [-> | D].
  - rewrite Nat.eqb_refl, (sum_ext _ _ (fun _ => 0)), sum_const; [lra|].
    intros j Hj; destruct (Nat.eqb_spec j k); [lia | reflexivity].
  - destruct (Nat.eqb_spec n k); [lia|]. rewrite IHn; [lra | lia].
Qed.

Section Expectations.
  Context {N P : nat} (C : cohorts N P).
  Lemma expected_ext X Y : (forall who, X who = Y who) -> expected C X = expected C Y.
  Proof. intros H; apply sum_ext; intros; rewrite H; reflexivity. Qed.
  Lemma expected_plus X Y : expected C (fun w => X w + Y w) = expected C X + expected C Y.
  Proof. unfold expected; rewrite <- sum_plus; apply sum_ext; intros; lra. Qed.
  Lemma expected_times a X : expected C (fun w => a * X w) = a * expected C X.
  Proof. unfold expected; rewrite <- sum_times; apply sum_ext; intros; lra. Qed.
  Lemma expected_const a : expected C (fun _ => a) = a.
  Proof.
    unfold expected; rewrite (sum_ext _ _ (fun o => a * chance C o)) by (intros; lra).
    rewrite sum_times, (chance_total C); lra.
  Qed.
  Lemma expected_sum n (X : nat -> cohort -> R) :
    expected C (fun w => sum n (fun k => X k w)) = sum n (fun k => expected C (X k)).
  Proof.
    unfold expected; rewrite <- sum_swap; apply sum_ext; intros; rewrite sum_times; reflexivity.
  Qed.
  Lemma expected_le X Y : (forall who, X who <= Y who) -> expected C X <= expected C Y.
  Proof.
    intros H. enough (0 <= expected C (fun w => Y w + -1 * X w))
      by (rewrite expected_plus, expected_times in *; lra).
    apply sum_pos; intros o Ho; apply Rmult_le_pos;
      [apply chance_pos, Ho | specialize (H (drawn C o)); lra].
  Qed.

  (** What a potential loses in every round adds up to no more than the potential. *)
  Lemma sum_first n u : sum (S n) u = u 0%nat + sum n (fun k => u (S k)).
  Proof.
    induction n; [simpl; lra|]. change (sum (S (S n)) u) with (sum (S n) u + u (S n)).
    rewrite IHn; simpl; lra.
  Qed.
  Theorem falls_every_round {A : Type} (next : cohort -> A -> A) (V D : A -> R) :
    (forall s, 0 <= V s) -> (forall s, expected C (fun who => V (next who s)) <= V s - D s) ->
    forall T s, sum T (fun t => later C next t D s) <= V s.
  Proof.
    intros pos falls. induction T; intros s; [apply pos|]. rewrite sum_first. cbn [later].
    rewrite <- expected_sum. specialize (falls s).
    assert (I : expected C (fun who => sum T (fun t => later C next t D (next who s)))
      <= expected C (fun who => V (next who s))) by (apply expected_le; intros; apply IHT). lra.
  Qed.

  Hypothesis some : (1 <= P)%nat.
  Hypothesis some_client : (1 <= N)%nat.
  Context {E : space}.
  Let n := INR N.
  Let p := INR P.
  Let p_pos : 1 <= p. Proof. apply (le_INR 1); assumption. Qed.
  Let n_pos : 1 <= n. Proof. apply (le_INR 1); assumption. Qed.

  (** Everybody's mean is the expected mean of the cohort. *)
  Theorem expected_mean (u : nat -> E) w :
    expected C (fun who => inner (cohort_mean N P who u) w) = inner (vmean N u) w.
  Proof.
    rewrite (expected_ext _ (fun who => / p * sum N (fun k => takes_part who k * inner (u k) w))).
    - rewrite expected_times, expected_sum, inner_vmean. unfold mean.
      rewrite (sum_ext _ _ (fun k => p / n * inner (u k) w)), sum_times; [subst n p; field; lra|].
      intros k Hk. rewrite (expected_ext _ (fun who => inner (u k) w * takes_part who k))
        by (intros; lra).
      rewrite expected_times. unfold expected; rewrite (one_of C k Hk); subst n p; lra.
    - intros; unfold cohort_mean; rewrite inner_scale, inner_vsum. f_equal. apply sum_ext; intros.
      rewrite inner_scale; reflexivity.
  Qed.

  (** What the clients change is changed with probability P/N. *)
  Theorem expected_changed (a b : nat -> R) :
    expected C (fun who => mean N (fun k => if who k then b k else a k))
    = mean N a + p / n * (mean N b - mean N a).
  Proof.
    unfold mean. rewrite expected_times, expected_sum, (sum_ext _ _ (fun k => a k + p / n * (b k
      + -1 * a k))).
    - rewrite sum_plus, sum_times, sum_plus, sum_times; lra.
    - intros k Hk. rewrite (expected_ext _ (fun who => a k + (b k + -1 * a k) * takes_part who k)).
      + rewrite expected_plus, expected_const, expected_times. unfold expected;
        rewrite (one_of C k Hk); subst n p; lra.
      + intros who; unfold takes_part; destruct (who k); lra.
  Qed.

  Theorem sampling (u : nat -> E) :
    expected C (fun who => ||cohort_mean N P who u||^2)
    = ||vmean N u||^2 + sampling_spread N P * mean N (fun k => ||u k - vmean N u||^2).
  Proof.
    set (once := p / n). set (twice := p * (p - 1) / (n * (n - 1))).
    assert (H : expected C (fun who => ||cohort_mean N P who u||^2)
      = / p * / p * ((once - twice) * sum N (fun k => ||u k||^2) + twice * ||vsum N u||^2)).
    { rewrite (expected_ext _ (fun who => / p * / p * sum N (fun k => sum N (fun j =>
        takes_part who j * takes_part who k * <<u j, u k>>)))).
      - rewrite expected_times, expected_sum. f_equal.
        rewrite inner_vsum, <- (sum_times N (once - twice)), <- (sum_times N twice), <- sum_plus.
        apply sum_ext; intros k Hk.
        rewrite (inner_sym (u k) (vsum N u)), inner_vsum, <- (sum_times N twice), expected_sum.
        rewrite (sum_ext _ _ (fun j => (if j =? k then (once - twice) * <<u j, u k>> else 0)
          + twice * <<u j, u k>>)).
        + rewrite sum_plus, (sum_delta N k (fun j => _ * inner (u j) (u k))) by assumption;
          reflexivity.
        + intros j Hj. rewrite (expected_ext _ (fun who => <<u j,
          u k>> * (takes_part who j * takes_part who k))) by (intros; lra).
          rewrite expected_times. unfold expected. destruct (Nat.eqb_spec j k) as [-> | D].
          * rewrite (sum_ext _ _ (fun o => chance C o * takes_part (drawn C o) k)),
            (one_of C k Hk); [subst once twice n p; lra|].
            intros; unfold takes_part; destruct (drawn C k0 k); lra.
          * rewrite (two_of C j k Hj Hk D); subst twice n p; lra.
      - intros who; unfold cohort_mean. rewrite inner_scale, inner_scale_r, <- Rmult_assoc.
      f_equal.
        rewrite inner_vsum. apply sum_ext; intros k _.
        rewrite inner_scale, (inner_sym (u k)), inner_vsum, <- sum_times.
        apply sum_ext; intros j _. rewrite inner_scale; lra. }
    rewrite H; clear H.
    assert (V : mean N (fun k => ||u k - vmean N u||^2) = mean N (fun k => ||u k||^2) - ||vmean N
      u||^2).
    { rewrite (mean_ext N _ (fun k => ||u k||^2 + (-2 * inner (u k) (vmean N u)
      + ||vmean N u||^2))).
      - rewrite !mean_plus, mean_times, mean_const, <- inner_vmean by assumption; lra.
      - intros; expand; rewrite (inner_sym (vmean N u) (u k)); lra. }
    rewrite V; clear V. unfold vmean, mean. rewrite inner_scale, inner_scale_r.
    set (a := sum N _). set (b := inner _ _). subst once twice. unfold sampling_spread. fold n p.
    destruct (Req_dec n 1) as [one | more].
    - assert (N = 1%nat) as E1 by (apply INR_eq; simpl; exact one).
      assert (a = b) as -> by (subst a b; rewrite E1; simpl; expand;
        rewrite ?inner_zero, ?inner_zero_r; lra).
      assert (p = 1) as ->.
      { pose proof (one_of C 0%nat ltac:(lia)) as O. fold n p in O. rewrite one in O.
        assert (sum (outcomes C) (fun o => chance C o * takes_part (drawn C o) 0)
          <= sum (outcomes C) (chance C)).
        { enough (0 <= sum (outcomes C) (fun o => chance C o
          + -1 * (chance C o * takes_part (drawn C o) 0)))
            by (rewrite sum_plus, sum_times in *; lra).
          apply sum_pos; intros o Ho; pose proof (chance_pos C o Ho); unfold takes_part;
            destruct (drawn C o 0%nat); lra. }
        rewrite (chance_total C) in *; lra. }
      rewrite one. unfold Rdiv. replace (1 - 1) with 0 by lra.
      rewrite ?Rmult_0_r, ?Rmult_0_l, Rinv_1. lra.
    - field. repeat split; lra.
  Qed.

  (** The same about a fixed vector. *)
  Corollary sampling_from (u : nat -> E) x :
    expected C (fun who => ||cohort_mean N P who u - x||^2)
    = ||vmean N u - x||^2 + sampling_spread N P * mean N (fun k => ||u k - vmean N u||^2).
  Proof.
    rewrite (expected_ext _ (fun who => ||cohort_mean N P who u||^2
      + (-2 * inner (cohort_mean N P who u) x + ||x||^2))).
    - rewrite !expected_plus, expected_times, expected_const, sampling, expected_mean.
      expand. rewrite (inner_sym x (vmean N u)); lra.
    - intros; expand; rewrite (inner_sym x (cohort_mean N P who u)); lra.
  Qed.
End Expectations.

(** * Uniformly drawn subsets *)

(** All subsets of P of the clients 0, ..., N - 1. *)
Definition with_ (m : nat) (who : cohort) : cohort := fun k => if k =? m then true else who k.
Fixpoint subsets (N P : nat) : list cohort :=
  match N, P with
  | O, O => [fun _ => false]
  | O, S _ => []
  | S m, O => subsets m O
  | S m, S q => subsets m (S q) ++ map (with_ m) (subsets m q)
  end.

Fixpoint total (l : list cohort) (X : cohort -> R) : R :=
  match l with [] => 0 | who :: t => X who + total t X end.
Lemma total_app l m X : total (l ++ m) X = total l X + total m X.
Proof. induction l; simpl; [lra | rewrite IHl; lra]. Qed.
Lemma total_map h l X : total (map h l) X = total l (fun who => X (h who)).
Proof. induction l; simpl; [lra | rewrite IHl; lra]. Qed.
Lemma total_ext l X Y : (forall who, In who l -> X who = Y who) -> total l X = total l Y.
Proof. induction l; simpl; intros H; [lra | rewrite IHl, (H a); auto]. Qed.
Lemma total_sum l (X : cohort -> R) :
  sum (length l) (fun o => X (nth o l (fun _ => false))) = total l X.
Proof.
  induction l as [|who t IH] using rev_ind; [reflexivity|].
  rewrite app_length, Nat.add_1_r, total_app. simpl sum. rewrite <- IH. simpl total.
  rewrite app_nth2, Nat.sub_diag by lia. simpl. rewrite Rplus_0_r. f_equal.
  apply sum_ext; intros; rewrite app_nth1 by assumption; reflexivity.
Qed.

Lemma outside N : forall P who, In who (subsets N P) -> forall k, (N <= k)%nat -> who k = false.
Proof.
  induction N; intros [|P] who; simpl; intros H k Hk; try tauto.
  - destruct H as [<- | []]; reflexivity.
  - apply (IHN _ _ H); lia.
  - apply in_app_or in H as [H | H]; [apply (IHN _ _ H); lia|].
    apply in_map_iff in H as [s [<- H]]. unfold with_. destruct (Nat.eqb_spec k N);
      [lia | apply (IHN _ _ H); lia].
Qed.
(** Each has P members. *)
Lemma members N : forall P who, In who (subsets N P) -> sum N (takes_part who) = INR P.
Proof.
  induction N; intros [|P] who; simpl subsets; intros H; try (destruct H; fail); simpl sum.
  - reflexivity.
  - rewrite (IHN 0%nat) by assumption. unfold takes_part. rewrite (outside _ _ _ H) by lia. simpl;
    lra.
  - apply in_app_or in H as [H | H].
    + rewrite (IHN (S P)) by assumption. unfold takes_part. rewrite (outside _ _ _ H) by lia. lra.
    + apply in_map_iff in H as [s [<- H]]. rewrite S_INR, <- (IHN P s H). f_equal.
      * apply sum_ext; intros k Hk; unfold takes_part, with_. destruct (Nat.eqb_spec k N);
        [lia | reflexivity].
      * unfold takes_part, with_. rewrite Nat.eqb_refl; reflexivity.
Qed.

Definition many (N P : nat) : R := INR (length (subsets N P)).
Definition count1 (N P k : nat) : R := total (subsets N P) (fun who => takes_part who k).
Definition count2 (N P j k : nat) : R :=
  total (subsets N P) (fun who => takes_part who j * takes_part who k).
Lemma many_S N P : many (S N) (S P) = many N (S P) + many N P.
Proof. unfold many; simpl; rewrite app_length, map_length, plus_INR; reflexivity. Qed.
Lemma many_total N P : many N P = total (subsets N P) (fun _ => 1).
Proof.
  unfold many; induction (subsets N P) as [|a l IH]; [reflexivity|].
  change (INR (length (a :: l))) with (INR (S (length l))). rewrite S_INR, IH; simpl; lra.
Qed.
Lemma takes_with m who k : takes_part (with_ m who) k = if k =? m then 1 else takes_part who k.
Proof. unfold takes_part, with_; destruct (k =? m); reflexivity. Qed.
Lemma last_out N P l : (forall who, In who l -> In who (subsets N P)) ->
  forall X, total l (fun who => X who * takes_part who N) = 0.
Proof.
  intros H X. induction l as [|a l IH]; simpl; [reflexivity|].
  rewrite IH by (intros; apply H; right; assumption). unfold takes_part at 1.
  rewrite (outside N P a) by (try lia; apply H; left; reflexivity). lra.
Qed.
Lemma count1_last N P : count1 (S N) (S P) N = many N P.
Proof.
  unfold count1; simpl. rewrite total_app, total_map, many_total.
  rewrite (total_ext (subsets N (S P)) _ (fun who => 1 * takes_part who N)) by (intros; lra).
  rewrite (last_out N (S P)) by auto. rewrite Rplus_0_l. apply total_ext; intros;
    rewrite takes_with, Nat.eqb_refl; reflexivity.
Qed.
Lemma count1_rest N P k : (k < N)%nat -> count1 (S N) (S P) k = count1 N (S P) k + count1 N P k.
Proof.
  intros H; unfold count1; simpl. rewrite total_app, total_map. f_equal. apply total_ext; intros.
  rewrite takes_with; destruct (Nat.eqb_spec k N); [lia | reflexivity].
Qed.
Lemma count2_last N P j : (j < N)%nat -> count2 (S N) (S P) j N = count1 N P j.
Proof.
  intros H; unfold count2, count1; simpl. rewrite total_app, total_map, (last_out N (S P)) by auto.
  rewrite Rplus_0_l. apply total_ext; intros. rewrite !takes_with, Nat.eqb_refl.
  destruct (Nat.eqb_spec j N); [lia | lra].
Qed.
Lemma count2_rest N P j k : (j < N)%nat -> (k < N)%nat ->
  count2 (S N) (S P) j k = count2 N (S P) j k + count2 N P j k.
Proof.
  intros H I; unfold count2; simpl. rewrite total_app, total_map. f_equal. apply total_ext; intros.
  rewrite !takes_with. destruct (Nat.eqb_spec j N), (Nat.eqb_spec k N); try lia. reflexivity.
Qed.
Lemma nobody N : subsets N 0 = [fun _ => false].
Proof. induction N; [reflexivity | assumption]. Qed.
Lemma count1_0 N k : count1 N 0 k = 0. Proof. unfold count1; rewrite nobody; simpl;
  unfold takes_part; lra. Qed.
Lemma count2_0 N j k : count2 N 0 j k = 0. Proof. unfold count2; rewrite nobody; simpl;
  unfold takes_part; lra. Qed.
Lemma many_0 N : many N 0 = 1. Proof. unfold many; rewrite nobody; reflexivity. Qed.

Lemma count1_is N : forall P k, (k <= N)%nat -> count1 (S N) (S P) k = many N P.
Proof.
  induction N; intros P k H.
  - replace k with 0%nat by lia. apply count1_last.
  - destruct (Nat.eq_dec k (S N)) as [-> | D]; [apply count1_last|].
    rewrite count1_rest, IHN by lia. destruct P as [|P].
    + rewrite count1_0, !many_0; lra.
    + rewrite IHN, many_S by lia; reflexivity.
Qed.
Lemma count2_1 N : forall j k, (j < k)%nat -> (k < N)%nat -> count2 N 1 j k = 0.
Proof.
  induction N; intros j k H I; [lia|]. destruct (Nat.eq_dec k N) as [-> | D].
  - rewrite count2_last, count1_0; auto.
  - rewrite count2_rest, IHN, count2_0 by lia; lra.
Qed.
Lemma count2_is N : forall P j k, (j < k)%nat -> (k <= S N)%nat ->
  count2 (S (S N)) (S (S P)) j k = many N P.
Proof.
  induction N; intros P j k H I.
  - replace k with 1%nat by lia. rewrite count2_last by lia. apply count1_is; lia.
  - destruct (Nat.eq_dec k (S (S N))) as [-> | D]; [rewrite count2_last by lia; apply count1_is;
    lia|].
    rewrite count2_rest, IHN by lia. destruct P as [|P].
    + rewrite count2_1, !many_0 by lia; lra.
    + rewrite IHN, many_S by lia; reflexivity.
Qed.
Lemma too_many N : forall P, (N < P)%nat -> many N P = 0.
Proof.
  induction N; intros [|P] H; try lia; [reflexivity|]. rewrite many_S, !IHN by lia; lra.
Qed.
Lemma absorbed N : forall P, INR (S P) * many (S N) (S P) = INR (S N) * many N P.
Proof.
  induction N; intros P.
  - rewrite many_S. unfold many at 1; simpl subsets. destruct P; [rewrite many_0; simpl;
    lra | rewrite too_many by lia; simpl; lra].
  - rewrite many_S, Rmult_plus_distr_l, IHN. destruct P as [|P].
    + rewrite !many_0, !S_INR; simpl; lra.
    + rewrite (many_S N P), (S_INR (S P)), (S_INR (S N)). pose proof (IHN P) as I.
    rewrite many_S in I. lra.
Qed.
Lemma enough_many N : forall P, (P <= N)%nat -> 1 <= many N P.
Proof.
  induction N; intros [|P] H; try lia; rewrite ?many_0; try lra. rewrite many_S.
  pose proof (IHN P ltac:(lia)). pose proof (pos_INR (length (subsets N (S P)))) as Q.
  fold (many N (S P)) in Q. lra.
Qed.

(** P of N clients, 1 <= P <= N, drawn uniformly: every subset of P has the same chance. *)
Definition uniform (N P : nat) : (1 <= P <= N)%nat -> cohorts N P.
Proof.
  intros H. pose proof (enough_many N P ltac:(lia)) as M.
  assert (T : forall X, sum (length (subsets N P))
    (fun o => / many N P * X (nth o (subsets N P) (fun _ => false))) = / many N P * total (subsets
      N P) X)
    by (intros; rewrite sum_times, total_sum; reflexivity).
  destruct P as [|P], N as [|N]; try lia. assert (0 < INR (S N)) by (apply lt_0_INR; lia).
  refine (Cohorts _ _ (length (subsets (S N) (S P))) (fun _ => / many (S N) (S P))
    (fun o => nth o (subsets (S N) (S P)) (fun _ => false)) _ _ _ _).
  - intros; left; apply Rinv_0_lt_compat; lra.
  - rewrite sum_const. fold (many (S N) (S P)). field; lra.
  - intros k Hk. rewrite (T (fun who => takes_part who k)). fold (count1 (S N) (S P) k).
  rewrite count1_is by lia.
    pose proof (absorbed N P). apply Rmult_eq_reg_l with (many (S N) (S P) * INR (S N)); [|nra].
    field_simplify; lra.
  - intros j k Hj Hk D. rewrite (T (fun who => takes_part who j * takes_part who k)).
  fold (count2 (S N) (S P) j k).
    destruct N as [|N]; [lia|].
    assert (S_ : count2 (S (S N)) (S P) j k = INR P / INR (S N) * many (S N) P).
    { assert (B : forall j k, (j < k)%nat -> (k < S (S N))%nat ->
      count2 (S (S N)) (S P) j k = INR P / INR (S N) * many (S N) P).
      { intros a b Ha Hb. destruct P as [|P]; [rewrite count2_1 by lia; simpl; lra|].
        rewrite count2_is by lia. pose proof (absorbed N P) as A. assert (0 < INR (S N))
          by (apply lt_0_INR; lia).
        apply Rmult_eq_reg_l with (INR (S N)); [|lra]. rewrite <- A. field; lra. }
      destruct (Nat.lt_ge_cases j k) as [L | L]; [apply B; lia|].
      rewrite <- (B k j) by lia. apply total_ext; intros; lra. }
    rewrite S_. pose proof (absorbed (S N) P). assert (0 < INR (S N)) by (apply lt_0_INR; lia).
    rewrite (S_INR (S N)) in *. rewrite (S_INR P) in *.
    replace (INR P + 1 - 1) with (INR P) by lra.
    replace (INR (S N) + 1 - 1) with (INR (S N)) by lra.
    apply Rmult_eq_reg_l with (many (S (S N)) (S P) * (INR (S N) + 1) * INR (S N)); [|nra].
    transitivity (INR P * ((INR (S N) + 1) * many (S N) P)); [|rewrite <- H1]; field;
      repeat split; lra.
Defined.

(** Everybody takes part. *)
Definition everybody (N : nat) : (1 <= N)%nat -> cohorts N N.
Proof.
  intros H. assert (P : 0 < INR N) by (apply lt_0_INR; lia).
  refine (Cohorts N N 1 (fun _ => 1) (fun _ _ => true) _ _ _ _); unfold takes_part; simpl.
  - intros; lra.
  - lra.
  - intros; field; lra.
  - intros j k Hj Hk D. assert (1 < INR N) by (apply (lt_INR 1); lia). field. split; lra.
Defined.
Lemma expected_everybody N (H : (1 <= N)%nat) X : expected (everybody N H) X = X (fun _ => true).
Proof. unfold expected; simpl; lra. Qed.
Lemma everybodys_mean {E : space} N (u : nat -> E) : cohort_mean N N (fun _ => true) u = vmean N u.
Proof.
  apply same; intros w. unfold cohort_mean, vmean, takes_part. rewrite !inner_scale, !inner_vsum.
  f_equal. apply sum_ext; intros; rewrite inner_scale; lra.
Qed.

Print Assumptions sampling_from.
Print Assumptions uniform.
