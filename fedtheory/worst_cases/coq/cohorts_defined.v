(** Random cohorts by their definition, and their finite expectations. A reader of a theorem about one
    reads [definitions.v] and this file. *)
From Coq Require Import Reals PeanoNat.
From Fedtheory Require Export definitions.
Open Scope R_scope.

(** A cohort is given by who takes part. *)
Definition cohort := nat -> bool.
Definition takes_part (who : cohort) (k : nat) : R := if who k then 1 else 0.

(** A random cohort has finitely many outcomes 0, ..., outcomes - 1, each with its chance. Every
    one of the N clients takes part with probability P/N, and every two of them with probability P
    (P - 1)/(N (N - 1)). *)
Record cohorts (N P : nat) := Cohorts {
  outcomes : nat;
  chance : nat -> R;
  drawn : nat -> cohort;
  chance_pos : forall o, (o < outcomes)%nat -> 0 <= chance o;
  chance_total : sum outcomes chance = 1;
  one_of : forall k, (k < N)%nat ->
    sum outcomes (fun o => chance o * takes_part (drawn o) k) = INR P / INR N;
  two_of : forall j k, (j < N)%nat -> (k < N)%nat -> j <> k ->
    sum outcomes (fun o => chance o * (takes_part (drawn o) j * takes_part (drawn o) k))
    = INR P * (INR P - 1) / (INR N * (INR N - 1)) }.
Arguments outcomes {_ _}. Arguments chance {_ _}. Arguments drawn {_ _}.
Arguments chance_pos {_ _}.
Arguments chance_total {_ _}. Arguments one_of {_ _}. Arguments two_of {_ _}.

(** The expectation of what depends on the cohort, and the mean over P members. *)
Definition expected {N P} (C : cohorts N P) (X : cohort -> R) : R :=
  sum (outcomes C) (fun o => chance C o * X (drawn C o)).
Definition cohort_mean {E : space} (N P : nat) (who : cohort) (u : nat -> E) : E :=
  (/ INR P * vsum N (fun k => takes_part who k * u k))%vec.

(** The expectation of [X] of the state after [t] rounds from [s], with cohorts drawn anew in
    each. *)
Fixpoint later {S : Type} {N P} (C : cohorts N P) (next : cohort -> S -> S) (t : nat) (X : S -> R)
    (s : S) : R :=
  match t with O => X s | Datatypes.S r => expected C (fun who => later C next r X (next who s))
    end.

(** What a cohort of P of N leaves of the clients' spread. *)
Definition sampling_spread (N P : nat) : R := (INR N - INR P) / (INR P * (INR N - 1)).
