(** Methods by their definition, with everybody taking part. A reader of a theorem about one reads
    [definitions.v] and this file. [g k] is the gradient of client [k]'s loss. A record asks for a
    run that never ends, where the certificate is about its first T rounds. *)
From Coq Require Import Reals.
From Fedtheory Require Export definitions.
Open Scope R_scope.

(** SCAFFOLD, server step 1, control variates [c k] 0 at first: [K] steps along g_k - c_k + c from
    the server's model, c the mean of the c_k; then the mean of the clients' models, and c_k - c +
    (x - y_k)/(K step) (option II) or the gradient at the server's model (option I). *)
Section Scaffold.
  Context {E : space} (N : nat) (step : R) (K : nat) (g : nat -> E -> E) (x0 : E).
  Fixpoint steered (c : nat -> E) (k : nat) (x : E) (j : nat) : E :=
    match j with
    | O => x
    | S i => let y := steered c k x i in (y - step * (g k y - c k + vmean N c))%vec
    end.
  (** The server's model and the control variates after [t] rounds. *)
  Fixpoint scaffold (t : nat) : E * (nat -> E) :=
    match t with
    | O => (x0, fun _ => zero)
    | S s => let (x, c) := scaffold s in let y := fun k => steered c k x K in
        (vmean N y, fun k => (c k - vmean N c + / (INR K * step) * (x - y k))%vec)
    end.
  Fixpoint scaffold_I (t : nat) : E * (nat -> E) :=
    match t with
    | O => (x0, fun _ => zero)
    | S s => let (x, c) := scaffold_I s in (vmean N (fun k => steered c k x K), fun k => g k x)
    end.
End Scaffold.

(** Local work on f_k(y) - <h, y> + alpha/2 ||y - x||^2: its exact solution, or [K] gradient steps
    from x. *)
Definition solved {E : space} (alpha : R) (g : nat -> E -> E) (k : nat) (h x y : E) : Prop :=
  (g k y - h + alpha * (y - x))%vec = zero.
Fixpoint walk {E : space} (alpha step : R) (g : nat -> E -> E) (k : nat) (h x : E) (j : nat) : E :=
  match j with
  | O => x
  | S i => let y := walk alpha step g k h x i in (y - step * (g k y - h + alpha * (y - x)))%vec
  end.
Definition walked {E : space} (K : nat) (step alpha : R) (g : nat -> E -> E) k (h x y : E) : Prop :=
  y = walk alpha step g k h x K.

(** FedDyn, stored gradients [h] 0 at first: models [x t], the clients' models [y t k] and their
    stored gradients [h t k] are those of a run if every client does its local [work] on f_k - <h_k,
    .> + alpha/2 ||. - x||^2, stores h_k - alpha (y_k - x), and the server's model is the clients'
    mean less the mean of the stored gradients over alpha. *)
Record feddyn {E : space} (N : nat) (work : R -> (nat -> E -> E) -> nat -> E -> E -> E -> Prop)
    (alpha : R) (g : nat -> E -> E) (x0 : E) (x : nat -> E) (y h : nat -> nat -> E) : Prop := {
  dyn_start : x O = x0;
  dyn_nothing : forall k, (k < N)%nat -> h O k = zero;
  dyn_work : forall t k, (k < N)%nat -> work alpha g k (h t k) (x t) (y (S t) k);
  dyn_stored : forall t k, (k < N)%nat -> h (S t) k = (h t k - alpha * (y (S t) k - x t))%vec;
  dyn_model : forall t, x (S t) = (vmean N (y (S t)) - / alpha * vmean N (h (S t)))%vec }.

(** FedProx: the same local problem without stored gradients; the server's model is the mean. *)
Record fedprox {E : space} (N : nat) (mu : R) (g : nat -> E -> E) (x0 : E)
    (x : nat -> E) (y : nat -> nat -> E) : Prop := {
  prox_start : x O = x0;
  prox_work : forall t k, (k < N)%nat -> solved mu g k zero (x t) (y (S t) k);
  prox_model : forall t, x (S t) = vmean N (y (S t)) }.

(** FedElasticNet's Algorithm 3 with the true-gradient rule: FedDyn's local problem plus l1 ||y -
    x||_1, solved exactly, and the gradient at the solution is stored. [norm] is the l1 norm, or any
    other; [p] is a subgradient of l1 norm(.) at the move. *)
Record elastic_net {E : space} (N : nat) (norm : E -> R) (l1 l2 : R) (g : nat -> E -> E) (x0 : E)
    (x : nat -> E) (y h p : nat -> nat -> E) : Prop := {
  net_norm : forall a v, norm (a * v)%vec = Rabs a * norm v;
  net_start : x O = x0;
  net_nothing : forall k, (k < N)%nat -> h O k = zero;
  net_kink : forall t k, (k < N)%nat ->
    subgradient (fun v => l1 * norm v) (y (S t) k - x t)%vec (p (S t) k);
  net_work : forall t k, (k < N)%nat ->
    (g k (y (S t) k) - h t k + l2 * (y (S t) k - x t) + p (S t) k)%vec = zero;
  net_stored : forall t k, (k < N)%nat -> h (S t) k = g k (y (S t) k);
  net_model : forall t, x (S t) = (vmean N (y (S t)) - / l2 * vmean N (h (S t)))%vec }.

(** The distributed subgradient method: [s t k] is any subgradient of client [k] at [x t]. *)
Record subgradient_method {E : space} (N : nat) (step : R) (f : nat -> E -> R) (x0 : E)
    (x : nat -> E) (s : nat -> nat -> E) : Prop := {
  sub_start : x O = x0;
  sub_slope : forall t k, (k < N)%nat -> subgradient (f k) (x t) (s t k);
  sub_step : forall t, x (S t) = (x t - step * vmean N (s t))%vec }.

(** FedMLS on all of space with exact local solves: the server's [x], [z] and the clients' [xl],
    [zl] after [t] rounds; [s] is a subgradient at the solution of the local problem of round t + 1,
    whose gamma is 2/(t + 2) and whose beta is 4/(lam (t + 1)). *)
Record fedmls {E : space} (N : nat) (lam : R) (f : nat -> E -> R) (x0 : E)
    (x z : nat -> E) (xl zl s : nat -> nat -> E) : Prop := {
  mls_start : x O = x0 /\ z O = x0 /\ forall k, (k < N)%nat -> xl O k = x0 /\ zl O k = x0;
  mls_round : forall t, let gamma := 2 / INR (t + 2) in
    let mix := fun a b : E => ((1 - gamma)%R * a + gamma * b)%vec in
    let yl := fun k => mix (xl t k) (zl t k) in let y := mix (x t) (z t) in
    z (S t) = (z t - (INR (t + 1) / 4) * (y - vmean N yl))%vec /\ x (S t) = mix (x t) (z (S t)) /\
    forall k, (k < N)%nat -> xl (S t) k = mix (xl t k) (zl (S t) k) /\
      subgradient (f k) (zl (S t) k) (s (S t) k) /\
      (s (S t) k + / lam * (yl k - y) + 4 / (lam * INR (t + 1)) * (zl (S t) k - zl t k))%vec
      = zero }.
