(** FedElasticNet with the true-gradient rule lowers a potential in every round, up to what its
    penalty pulls, from lambda_2 = (1 + sqrt 13)/3 L = 1.5352 L on: Theorem E of the
    documentation. *)
From Coq Require Import Reals Lra Lia.
From Fedtheory Require Import facts methods_defined cohorts.
From Theorems Require Import round feddyn.
Open Scope R_scope.

(** * Definitions *)

(** [y k] solves client [k]'s local problem with a penalty [r] of the move, lambda_1 times its l1
    norm say: grad f_k(y) - h_k + lambda_2 (y - x) + pull_k = 0, where pull_k is a subgradient at
    y - x. *)
Record solved_elastic {E : space} N (lambda_2 : R) (r : E -> R) (g : nat -> E -> E)
    (x : E) (h y pull : nat -> E) : Prop := {
  pulls_back : forall k, (k < N)%nat -> subgradient r (y k - x)%vec (pull k);
  rests : forall k, (k < N)%nat -> (g k (y k) - h k + lambda_2 * (y k - x) + pull k)%vec = zero }.

(** What Theorem E says of a round: the potential falls by [kappa_0] times the gap at gamma, up to
    the mean pull; with lambda_2 = lam L, and the constants of FedDyn for one participant. *)
Definition falls_up_to_pull {E : space} {N P : nat} (C : cohorts N P) (L lam : R)
    (f : nat -> E -> R) (g : nat -> E -> E) (xs x : E) (h y pull : nat -> E) : Prop :=
  let V := potential N (lam * L) g (INR N / INR P * kappa lam / lam ^ 2 / L ^ 2) xs in
  let G := gamma N (lam * L) x h in
  expected C (fun who => V (model N P (lam * L) g who h y) (stored g who h y))
  <= V x h - kappa_0 lam / L * (objective N f G - objective N f xs)
    - 2 / (lam * L) * << G - xs, vmean N pull >>.

(** * Theorem E *)
Lemma theorem_e_pulls N P L lam :
  (1 <= P)%nat -> (P <= N)%nat -> 0 < L -> (1 + sqrt 13) / 3 <= lam ->
  forall (E : space) (C : cohorts N P) (f : nat -> E -> R) (g : nat -> E -> E)
    (xs x : E) (h y pull : nat -> E),
  losses N 0 L f g xs -> (forall k, (k < N)%nat -> 0 <= << pull k, y k - x >>) ->
  (forall k, (k < N)%nat -> (g k (y k) - h k + (lam * L)%R * (y k - x) + pull k)%vec = zero) ->
  falls_up_to_pull C L lam f g xs x h y pull.
Proof.
  intros HP HN HL Hl E C f g xs x h y pull [some smooth opt] pulls stops.
  assert (Q : sqrt 13 * sqrt 13 = 13) by (apply sqrt_sqrt; lra). pose proof (sqrt_pos 13) as Q0.
  assert (l0 : 0 < lam) by lra. assert (far : 2 * lam + 4 <= 3 * lam ^ 2) by nra.
  destruct (spread_is N P HP HN) as [s0 _].
  assert (bal : forall k v, (k < N)%nat ->
    << g k (y k) + pull k - h k + (lam * L)%R * (y k - x), v >> = 0).
  { intros k v Hk. rewrite <- (inner_zero v), <- (stops k Hk). expand; lra. }
  unfold falls_up_to_pull, kappa, kappa_0, near. destruct (Rle_dec _ _) as [n | n].
  - replace (4 * lam / (2 + lam) ^ 2 / L) with (2 * (2 * lam / (2 + lam) ^ 2) / L) by (field; lra).
    apply (falls_near N P C L lam f g xs x h y pull); assumption.
  - apply (falls_far N P C L lam f g xs x h y pull); try assumption. lra.
Qed.

Theorem theorem_e N P L lam : (1 <= P)%nat -> (P <= N)%nat -> 0 < L -> (1 + sqrt 13) / 3 <= lam ->
  forall (E : space) (C : cohorts N P) (r : E -> R) (f : nat -> E -> R) (g : nat -> E -> E)
    (xs x : E) (h y pull : nat -> E),
  losses N 0 L f g xs -> (forall z, r zero <= r z) -> solved_elastic N (lam * L) r g x h y pull ->
  falls_up_to_pull C L lam f g xs x h y pull.
Proof.
  intros HP HN HL Hl E C r f g xs x h y pull Lo least [back stops].
  apply (theorem_e_pulls N P L lam HP HN HL Hl); try assumption.
  intros k Hk. pose proof (back k Hk zero) as S. specialize (least (y k - x)%vec).
  rewrite inner_sub_r, inner_zero_r in S. lra.
Qed.

(** The same of FedElasticNet as the library defines it, where everybody takes part in every
    round. *)
Corollary theorem_e_of_the_method N L lam : 0 < L -> (1 + sqrt 13) / 3 <= lam ->
  forall (E : space) norm l1 (f : nat -> E -> R) (g : nat -> E -> E) (xs x0 : E) x y h p,
  losses N 0 L f g xs -> elastic_net N norm l1 (lam * L) g x0 x y h p ->
  let V t := potential N (lam * L) g (kappa lam / lam ^ 2 / L ^ 2) xs (x t) (h t) in
  let G t := gamma N (lam * L) (x t) (h t) in
  forall t, V (S t) <= V t - kappa_0 lam / L * (objective N f (G t) - objective N f xs)
    - 2 / (lam * L) * << G t - xs, vmean N (p (S t)) >>.
Proof.
  intros HL Hl E norm l1 f g xs x0 x y h p Lo [scaled start none kink work keep mod_] V G t.
  pose proof (some_clients _ _ _ _ _ _ Lo) as some.
  assert (B : forall k, (k < N)%nat -> 0 <= << p (S t) k, y (S t) k - x t >>).
  { intros k Hk. set (z := (y (S t) k - x t)%vec). pose proof (kink t k Hk) as K. fold z in K.
    pose proof (K ((-1) * z)%vec) as K1. cbv beta in K1. rewrite (scaled (-1)) in K1.
    rewrite Rabs_left in K1 by lra. expand. lra. }
  pose proof (theorem_e_pulls N N L lam some (le_n N) HL Hl E (everybody N some) f g xs (x t) (h t)
    (y (S t)) (p (S t)) Lo B (work t)) as F.
  unfold falls_up_to_pull in F. cbv zeta in F. rewrite expected_everybody in F.
  replace (INR N / INR N * kappa lam) with (kappa lam) in F by (field; apply not_0_INR; lia).
  eapply Rle_trans; [|exact F]. right.
  assert (M : vmean N (h (S t)) = vmean N (stored g (fun _ => true) (h t) (y (S t)))).
  { apply same; intros z. rewrite !inner_vmean. apply mean_ext; intros k Hk.
    unfold stored. rewrite (keep t k Hk). reflexivity. }
  unfold V, potential, gamma, model. rewrite everybodys_mean, mod_, M. f_equal. f_equal.
  apply mean_ext; intros k Hk. unfold stored. rewrite (keep t k Hk). reflexivity.
Qed.
Print Assumptions theorem_e.
Print Assumptions theorem_e_of_the_method.
