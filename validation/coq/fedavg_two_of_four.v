(** A certificate of cohorts: FedAvg with two local steps 1/(4 L), two of four clients, one round.

    `fedtheory worst-case fedavg -N 4 -P 2 -K 2 --step 1/4 --criterion distance` found it. *)
From Coq Require Import Lra.
From Fedtheory Require Import cohort_bounds.
From Theorems Require Import fedavg_cohorts.
Import ListNotations.
Open Scope R_scope.

(** It bounds every N and P of which a cohort leaves no more of the clients' spread: 1/3. *)
Definition fedavg_cohort_bound : Prop :=
  forall (E : space) (N P : nat) (C : cohorts N P) (L radius : R)
    (f : nat -> E -> R) (g : nat -> E -> E) (xs x0 : E),
  0 < L -> setting N 0 L radius (1 * L * radius) f g xs x0 ->
  (1 <= P)%nat -> sampling_spread N P <= 1 / 3 ->
  expected C (fun who => ||fedavg_round N P (1 / 4 / L) 2 g who x0 - xs||^2)
  <= 1360162803 / 1250000000 * radius ^ 2.

Definition data : certificate := {|
  curvature := 0 # 1;
  spread := 1 # 1;
  bound := 1360162803 # 1250000000;
  places := [Opt; Start; Minus (At 1) (Step (1 # 4) (Own 1)); Minus (At 2) (Step (1 # 4) (Own 2))];
  denominator := 30000000000%positive;
  near := 30002429136;
  heterogeneity := 2641478136;
  norms := [];
  multipliers := [
    [0; 15217759518; 14718102555];
    [15217759569; 0; 27];
    [14718102504; 78; 0]]%Z |}.

Theorem fedavg_cohort : fedavg_cohort_bound.
Proof.
  intros E N P C L radius f g xs x0 HL S HP Hs.
  refine (cohort_bound data N P C 0 L radius (1 * L * radius) f g xs x0
    (fun i k => match i with 0 => xs | 1 => x0 | 2 => descent (1 / 4 / L) g k x0 1
      | _ => descent (1 / 4 / L) g k x0 2 end)%nat
    HL S _ _ _ _ 3 (fun k => descent (1 / 4 / L) g k x0 2) (1 # 3) HP _ Hs _).
  - numbers.
  - numbers.
  - reflexivity.
  - places.
  - reflexivity.
  - vm_cast_no_check (eq_refl true).
Qed.

(** Two of four clients, drawn uniformly. *)
Corollary two_of_four (E : space) (L radius : R) (f : nat -> E -> R)
    (g : nat -> E -> E) (xs x0 : E) : 0 < L -> setting 4 0 L radius (1 * L * radius) f g xs x0 ->
  forall some : (1 <= 2 <= 4)%nat,
  expected (uniform 4 2 some) (fun who => ||fedavg_round 4 2 (1 / 4 / L) 2 g who x0 - xs||^2)
  <= 1360162803 / 1250000000 * radius ^ 2.
Proof.
  intros HL S some. apply (fedavg_cohort E 4%nat 2%nat (uniform 4 2 some) L radius f g xs x0 HL
    S); [auto|].
  unfold sampling_spread; simpl; lra.
Qed.
Print Assumptions fedavg_cohort.
Print Assumptions two_of_four.
