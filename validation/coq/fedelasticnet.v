(** FedElasticNet with the true-gradient rule lowers a potential in every round, up to what its
    penalty pulls, from lambda_2 = (1 + sqrt 13)/3 L = 1.5352 L on: Theorem E of the
    documentation. *)
From Coq Require Import Reals Lra Lia.
From Fedtheory Require Import facts cohorts.
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

(** * Theorem E *)
Theorem theorem_e N P L lam : (1 <= P)%nat -> (P <= N)%nat -> 0 < L -> (1 + sqrt 13) / 3 <= lam ->
  forall (E : space) (C : cohorts N P) (r : E -> R) (f : nat -> E -> R) (g : nat -> E -> E)
    (xs x : E) (h y pull : nat -> E),
  losses N 0 L f g xs -> (forall z, r zero <= r z) -> solved_elastic N (lam * L) r g x h y pull ->
  let V := potential N (lam * L) g (INR N / INR P * kappa lam / lam ^ 2 / L ^ 2) xs in
  let G := gamma N (lam * L) x h in
  expected C (fun who => V (model N P (lam * L) g who h y) (stored g who h y))
  <= V x h - kappa_0 lam / L * (objective N f G - objective N f xs)
    - 2 / (lam * L) * << G - xs, vmean N pull >>.
Proof.
  intros HP HN HL Hl E C r f g xs x h y pull [some smooth opt] least [back stops] V G.
  assert (Q : sqrt 13 * sqrt 13 = 13) by (apply sqrt_sqrt; lra). pose proof (sqrt_pos 13) as Q0.
  assert (l0 : 0 < lam) by lra. assert (far : 2 * lam + 4 <= 3 * lam ^ 2) by nra.
  destruct (spread_is N P HP HN) as [s0 _].
  assert (B : forall k, (k < N)%nat -> 0 <= << pull k, y k - x >>).
  { intros k Hk. pose proof (back k Hk zero) as S. specialize (least (y k - x)%vec).
    rewrite inner_sub_r, inner_zero_r in S. lra. }
  assert (bal : forall k v, (k < N)%nat -> << g k (y k) + pull k - h k + (lam * L)%R * (y k - x),
    v >> = 0).
  { intros k v Hk. rewrite <- (inner_zero v), <- (stops k Hk). expand; lra. }
  unfold V, G, kappa, kappa_0, near. destruct (Rle_dec _ _) as [n | n].
  - replace (4 * lam / (2 + lam) ^ 2 / L) with (2 * (2 * lam / (2 + lam) ^ 2) / L) by (field; lra).
    apply (falls_near N P C L lam f g xs x h y pull); assumption.
  - apply (falls_far N P C L lam f g xs x h y pull); try assumption. lra.
Qed.
Print Assumptions theorem_e.
