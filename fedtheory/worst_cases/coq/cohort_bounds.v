(** A checked certificate of one round with a cohort: the expected distance of the members' mean.
*)
From Coq Require Import Qreals Lra.
From Fedtheory Require Export bounds cohorts.
Import ListNotations.
Open Scope R_scope.

(** The squared distance of the mean of point [i] over the clients, and a part of their spread. *)
Definition of_cohort (part : Q) (i : nat) : criterion :=
  let apart := Minus (At i) (Mean (At i)) in
  Form [(1%Q, (Mean (At i), Mean (At i))); (part, (apart, apart))] [].

(** The local models [y] are the certificate's point [last], and a cohort leaves at most the
    certificate's part of their spread. *)
Theorem cohort_bound {E : space} (c : certificate) (N P : nat) (C : cohorts N P)
    (mu L radius zeta : R) (f : nat -> E -> R) (g : nat -> E -> E)
    (xs x0 : E) (pt : nat -> nat -> E) :
  0 < L -> setting N mu L radius zeta f g xs x0 -> mu = num (curvature c) * L ->
  heterogeneity c = 0%Z \/ zeta = num (spread c) * L * radius -> (forall k, pt 0%nat k = xs) ->
  all_placed N L xs x0 pt (fun i k => g k (pt i k)) (fun q => q / L) 0 (places c) ->
  forall (last : nat) (y : nat -> E) (part : Q),
  (1 <= P)%nat -> (forall k, (k < N)%nat -> pt last k = y k) -> sampling_spread N P <= num part ->
  check true c (of_cohort part last) = true ->
  expected C (fun who => ||cohort_mean N P who y - xs||^2) <= num (bound c) * radius ^ 2.
Proof.
  intros HL S Hm Hz H0 pl last y part HP here Hs Ch. pose proof (some_client S) as some.
  pose (o := fun i k => g k (pt i k)).
  assert (none : known_to_be_positive N L xs x0 pt o (of_cohort part last)) by (intros p []).
  pose proof (smooth_checked c N mu L radius zeta f g xs x0 pt HL S Hm Hz H0 o
    (fun i k _ => eq_refl) pl _ none Ch) as M.
  rewrite num_is in *. eapply Rle_trans; [|exact M]. unfold measured, summed, of_cohort.
  cbn [fold_right fst snd den]. rewrite (sampling_from C HP some).
  assert (Y : vmean N (fun k => pt last k - xs)%vec = (vmean N y - xs)%vec).
  { apply same; intros w. rewrite inner_vmean, (mean_ext N _ (fun k => inner (y k) w - inner xs w))
      by (intros k Hk; rewrite (here k Hk); apply inner_sub).
    rewrite mean_minus, mean_const, inner_sub, inner_vmean by exact some. reflexivity. }
  rewrite Y, (mean_const N some). replace (Q2R 1) with 1 by (unfold Q2R; simpl; lra).
  rewrite (mean_ext N (fun k => inner (sub (sub (pt last k) xs) _) _)
    (fun k => ||y k - vmean N y||^2)).
  - assert (0 <= mean N (fun k => ||y k - vmean N y||^2))
      by (apply mean_pos; [exact some | intros; apply inner_pos]).
    nra.
  - intros k Hk. rewrite (here k Hk). f_equal; apply same; intros w; expand; lra.
Qed.
