# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154 # lib.sh and row.sh share variables
#
# Slurm's own daemons with docs/deploy/slurm/; all jobs are an unprivileged user's.

queue() { squeue --noheader --format='%j %T %r'; }
queue_has() { queue | grep -qxF -- "$1"; }
job_ended() { ! queue | grep -q "^$1 "; }

row slurm-host0 host+slurm+host0 'srun --gres=apir:1 on the machine with the GPU: on APIR0'
row_slurm_host0() {
    observe as_job_user <<'END'
srun --gres=apir:1 apir run --device host0 -- llama-bench -m /models/first.gguf -dev APIR0 -ngl 99 -t 1 -p 4 -n 4 -r 1 -o json
END
    bench_on_apir
}

row slurm-waits host+slurm+host0 'the resource is taken: the next job that asks waits, one that does not ask runs'
row_slurm_waits() {
    mkfifo -m 0666 "$work/go"
    chmod 0755 "$work"
    at_end 'scancel --user=user'
    as_job_user <<END
sbatch --quiet --output=/dev/null --job-name=first --gres=apir:1 --wrap 'read x <$work/go'
sbatch --quiet --output=/dev/null --job-name=second --gres=apir:1 --wrap true
END
    wait_for queue_has 'first RUNNING None'
    wait_for queue_has 'second PENDING Resources'
    observe as_job_user <<<'srun echo runs'
    grep -qx runs "$last/out" || die 'a job that does not ask for it waits, too'
    queue_has 'second PENDING Resources' || die 'the second job has not waited'
    echo >"$work/go"
    wait_for job_ended first
    wait_for job_ended second
    wait_for queue_is_empty
}
queue_is_empty() { [[ -z $(queue) ]]; }

row slurm-too-many host+slurm+host0 'more of it than a node has: refused at once'
row_slurm_too_many() {
    ! as_job_user <<<'srun --gres=apir:2 true' 2>"$work/err" || die 'it has run'
    cat "$work/err"
    grep -q 'Requested node configuration is not available' "$work/err" || die 'not refused for what it asks'
}

# A limit, which docs/deploy/slurm.md states: who may connect to the socket may do so in any job.
row slurm-host0-open host+slurm+host0 'a job without it computes on host0 all the same: there it counts and keeps nobody out'
row_slurm_host0_open() {
    observe as_job_user <<'END'
srun apir run --device host0 -- llama-bench -m /models/first.gguf -dev APIR0 -ngl 99 -t 1 -p 4 -n 4 -r 1 -o json
END
    bench_on_apir
}

row slurm-class host+slurm+classes '--gres=apir:batch:1: on that class'"'"'s server; more than the class has is refused'
row_slurm_class() {
    local log=/mnt/share/log/setup-class-daemon.log
    ! grep -q 'of user 1000 created' "$log" || die 'somebody has computed there already'
    observe as_job_user <<'END'
srun --gres=apir:batch:1 apir run --spec /etc/cdi/apir-batch.json --device host0 -- llama-bench -m /models/first.gguf -dev APIR0 -ngl 99 -t 1 -p 4 -n 4 -r 1 -o json
END
    bench_on_apir
    grep -q 'of user 1000 created' "$log" || die "not on the class's server"
    ! as_job_user <<<'srun --gres=apir:batch:3 true' 2>"$work/err" || die 'it has run'
    grep -q 'Requested node configuration is not available' "$work/err" || die "not refused for what it asks: $(cat "$work/err")"
}

row slurm-gpu0 slurm+gpu0 'in a VM: --gres=apir:1 gives the node, on APIR0'
row_slurm_gpu0() {
    observe as_job_user <<'END'
srun --gres=apir:1 apir run --device gpu0 -- llama-bench -m /models/first.gguf -dev APIR0 -ngl 99 -t 1 -p 4 -n 4 -r 1 -o json
END
    bench_on_apir
}

row slurm-gpu0-without slurm+gpu0 'in a VM, a job without it: the kernel refuses the node'
row_slurm_gpu0_without() {
    local rc=0
    : >"$NODE" || die 'not even without Slurm can it be opened'
    as_job_user <<<"srun sh -c ': <$NODE'" 2>"$work/err" || rc=$?
    cat "$work/err"
    [[ $rc -ne 0 ]] || die 'it has opened the node'
    grep -q 'Operation not permitted' "$work/err" || die 'it was something else'
    rc=0
    as_job_user >"$work/out" 2>"$work/err" <<'END' || rc=$?
srun apir run --device gpu0 -- llama-bench -m /models/first.gguf -dev APIR0 -ngl 99 -t 1 -p 4 -n 4 -r 1 -o json
END
    cat "$work/out" "$work/err"
    [[ $rc -ne 0 ]] || die 'it has not failed'
    ! grep -q avg_ts "$work/out" || die 'it has computed on APIR0'
}
