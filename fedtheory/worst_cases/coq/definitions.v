(** All that a reader of a theorem must know: spaces, means over clients, losses, FedAvg.

    A theorem about another method names its definition in [methods_defined.v], one about cohorts
    those in [cohorts_defined.v]; one about a run has the run's equations in it. *)
From Coq Require Import Reals.
Open Scope R_scope.

(** A real inner-product space, of any dimension. *)
Record space := Space {
  vector :> Type;
  zero : vector;
  add : vector -> vector -> vector;
  scale : R -> vector -> vector;
  inner : vector -> vector -> R;
  inner_sym : forall x y, inner x y = inner y x;
  inner_zero : forall y, inner zero y = 0;
  inner_add : forall x y z, inner (add x y) z = inner x z + inner y z;
  inner_scale : forall a x y, inner (scale a x) y = a * inner x y;
  inner_pos : forall x, 0 <= inner x x;
  inner_definite : forall x y, inner (add x (scale (-1) y)) (add x (scale (-1) y)) = 0 -> x = y }.
Arguments zero {_}. Arguments add {_}. Arguments scale {_}. Arguments inner {_}.
Arguments inner_sym {_}. Arguments inner_zero {_}. Arguments inner_add {_}.
Arguments inner_scale {_}. Arguments inner_pos {_}. Arguments inner_definite {_}.
Definition sub {E : space} (x y : E) : E := add x (scale (-1) y).
Declare Scope vec_scope. Delimit Scope vec_scope with vec.
Infix "+" := add : vec_scope. Infix "-" := sub : vec_scope. Infix "*" := scale : vec_scope.
Notation "<< x , y >>" := (inner x%vec y%vec) (at level 0, format "<< x ,  y >>").
Notation "|| x ||^2" := (inner x%vec x%vec) (at level 0, x at level 99, format "|| x ||^2").

(** Means over the clients 0, ..., N - 1, of numbers and of vectors. *)
Fixpoint sum (n : nat) (u : nat -> R) : R := match n with O => 0 | S m => sum m u + u m end.
Fixpoint vsum {E : space} (n : nat) (u : nat -> E) : E :=
  match n with O => zero | S m => add (vsum m u) (u m) end.
Definition mean (N : nat) (u : nat -> R) : R := / INR N * sum N u.
Definition vmean {E : space} (N : nat) (u : nat -> E) : E := scale (/ INR N) (vsum N u).

(** [f] is mu-strongly convex (convex for mu = 0) and L-smooth, with gradient [g]. *)
Definition smooth_convex {E : space} (mu L : R) (f : E -> R) (g : E -> E) : Prop :=
  (forall x y, f x + <<g x, y - x>> + mu / 2 * ||y - x||^2 <= f y) /\
  (forall x y, f y <= f x + <<g x, y - x>> + L / 2 * ||y - x||^2).

(** The mean of N losses [f k]. What is asked of those with gradients [g k], of the optimum [xs] and
    of the start [x0]: they are smooth and convex, the distance of [x0] from [xs] is at most
    [radius], and the root mean square of the clients' gradients at [xs] is at most [zeta]. *)
Definition objective {E : space} N (f : nat -> E -> R) (x : E) : R := mean N (fun k => f k x).
Record setting {E : space} (N : nat) (mu L radius zeta : R)
    (f : nat -> E -> R) (g : nat -> E -> E) (xs x0 : E) : Prop := {
  some_client : (1 <= N)%nat;
  in_class : forall k, (k < N)%nat -> smooth_convex mu L (f k) (g k);
  optimal : forall x, objective N f xs <= objective N f x;
  start_near : ||x0 - xs||^2 <= radius ^ 2;
  heterogeneous : mean N (fun k => ||g k xs||^2) <= zeta ^ 2 }.
Arguments some_client {_ _ _ _ _ _ _ _ _ _}. Arguments in_class {_ _ _ _ _ _ _ _ _ _}.
Arguments optimal {_ _ _ _ _ _ _ _ _ _}. Arguments start_near {_ _ _ _ _ _ _ _ _ _}.
Arguments heterogeneous {_ _ _ _ _ _ _ _ _ _}.

(** Losses that need not be smooth: the root mean square of their subgradients, each at a point of
    its own, is at most [G], as it is where each is at most [G]. At the optimum there are
    subgradients [s] with mean 0, as there are at every minimum in R^n (Moreau and Rockafellar). *)
Definition subgradient {E : space} (f : E -> R) (x s : E) : Prop :=
  forall y, f x + <<s, y - x>> <= f y.
Record bounded_setting {E : space} (N : nat) (G radius : R)
    (f : nat -> E -> R) (s : nat -> E) (xs x0 : E) : Prop := {
  one_client : (1 <= N)%nat;
  bounded : forall x u, (forall k, (k < N)%nat -> subgradient (f k) (x k) (u k)) ->
    mean N (fun k => ||u k||^2) <= G ^ 2;
  at_optimum : forall k, (k < N)%nat -> subgradient (f k) xs (s k);
  balanced : vmean N s = zero;
  begins_near : ||x0 - xs||^2 <= radius ^ 2 }.
Arguments one_client {_ _ _ _ _ _ _ _}. Arguments bounded {_ _ _ _ _ _ _ _}.
Arguments at_optimum {_ _ _ _ _ _ _ _}. Arguments balanced {_ _ _ _ _ _ _ _}.
Arguments begins_near {_ _ _ _ _ _ _ _}.

(** FedAvg, that is local gradient descent: [K] steps of every client from the server's model, then
    the mean of the clients' models. *)
Section FedAvg.
  Context {E : space} (N : nat) (step : R) (K : nat) (g : nat -> E -> E) (x0 : E).
  Fixpoint descent (k : nat) (x : E) (j : nat) : E :=
    match j with O => x | S i => let y := descent k x i in (y - step * g k y)%vec end.
  Fixpoint fedavg (t : nat) : E :=
    match t with O => x0 | S s => vmean N (fun k => descent k (fedavg s) K) end.
End FedAvg.
