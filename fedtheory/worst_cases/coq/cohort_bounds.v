(** A checked certificate of one round with a cohort: the expected distance of the members' mean.
*)
From Coq Require Import Lra.
From Fedtheory Require Export bounds cohorts.
Open Scope R_scope.

(** The local models [y] are the certificate's point [last], and a cohort leaves at most the
    certificate's part of their spread. *)
Theorem cohort_bound {E : space} (c : certificate) (N P : nat) (C : cohorts N P)
    (mu L radius zeta : R) (f : nat -> E -> R) (g : nat -> E -> E)
    (xs x0 : E) (pt : nat -> nat -> E) :
  0 < L -> setting N mu L radius zeta f g xs x0 -> mu = num (curvature c) * L ->
  heterogeneity c = 0%Z \/ zeta = num (spread c) * L * radius -> (forall k, pt 0%nat k = xs) ->
  all_placed N L xs x0 pt (fun i k => g k (pt i k)) (fun q => q / L) 0 (places c) ->
  forall (last : nat) (y : nat -> E) (part : Z),
  (1 <= P)%nat -> (forall k, (k < N)%nat -> pt last k = y k) ->
  sampling_spread N P <= IZR part / IZR (Zpos (denominator c)) ->
  check true c (Cohort last part) = true ->
  expected C (fun who => ||cohort_mean N P who y - xs||^2) <= num (bound c) * radius ^ 2.
Proof.
  intros HL S Hm Hz H0 pl last y part HP here Hs Ch. pose proof (some_client S) as some.
  pose proof (smooth_checked c N mu L radius zeta f g xs x0 pt HL S Hm Hz H0 pl _ Ch) as M.
  rewrite num_is. eapply Rle_trans; [|exact M]. unfold measured.
  rewrite (sampling_from C HP some).
  assert (Y : forall w, inner (vmean N (fun k => sub (pt last k) xs)) w = << vmean N y - xs, w >>).
  { intros w. rewrite inner_vmean, (mean_ext N _ (fun k => inner (y k) w - inner xs w))
      by (intros k Hk; rewrite (here k Hk); apply inner_sub).
    rewrite mean_minus, mean_const, inner_sub, inner_vmean by exact some. reflexivity. }
  rewrite (same _ _ Y).
  rewrite (mean_ext N (fun k => ||y k - vmean N y||^2)
    (fun k => ||(pt last k - xs) - (vmean N y - xs)||^2)).
  - apply Rplus_le_compat_l, Rmult_le_compat_r; [|exact Hs].
    apply mean_pos; [exact some | intros; apply inner_pos].
  - intros k Hk. rewrite (here k Hk). f_equal; apply same; intros w; expand; lra.
Qed.
