# What a lab does to have a Grid Engine, each part as root on a node: sh -s PART.
set -e
root=/var/lib/gridengine
cell=/home/.gridengine # on the disk that all nodes share
spool=/var/spool/gridengine

# The folder that every host reads, instead of the machine's own.
link() {
	rm -rf $root/default
	ln -s $cell $root/default
	rm -rf $spool
	install -d -o sgeadmin -g sgeadmin $spool $spool/execd $spool/spooldb $spool/qmaster $spool/qmaster/job_scripts
}

# The cell and the server's database, before any daemon runs.
cell() {
	mkdir -p $cell/common
	cp /usr/share/gridengine/default-bootstrap $cell/common/bootstrap
	echo ctl >$cell/common/act_qmaster
	echo lab >$cell/common/cluster_name
	chown -R sgeadmin: $cell
	setpriv --reuid sgeadmin --regid sgeadmin --clear-groups \
		/usr/share/gridengine/scripts/init_cluster $root default $spool/spooldb sgeadmin
}

# set_lines FILE KEY=VALUE...: changes lines of the form that qconf prints
set_lines() {
	file=$1
	shift
	for pair; do sed -i "s|^${pair%%=*} .*|${pair%%=*} ${pair#*=}|" "$file"; done
}

# add_queue NAME HOSTS KEY=VALUE...
add_queue() {
	qconf -sq >queue # without a name, the template
	name=$1
	hosts=$2
	shift 2
	# The template's limit of load closes the queues of a busy machine.
	set_lines queue qname="$name" hostlist="$hosts" load_thresholds=NONE pe_list=smp shell=/bin/bash \
		shell_start_mode=unix_behavior notify=00:00:05 "$@"
	qconf -Aq queue
}

# Hosts, queues and the rest, once the server runs.
configure() {
	cd "$(mktemp -d)"
	qconf -as login1 -ah cn01,cn02 # an execution host must be an administrative one
	# At once: the defaults are to schedule every 15 seconds, and to write the accounting as often.
	qconf -ssconf >scheduler
	set_lines scheduler schedule_interval=0:0:1 flush_submit_sec=1 flush_finish_sec=1 job_load_adjustments=NONE \
		load_adjustment_decay_time=0:0:0 queue_sort_method=seqno schedd_job_info=true
	qconf -Msconf scheduler
	SGE_SINGLE_LINE=1 qconf -sconf | sed '/^#/d' >global
	set_lines global shell_start_mode=unix_behavior load_report_time=00:00:02 max_unheard=00:00:20 mailer=/bin/true \
		'reporting_params=accounting=true reporting=false flush_time=00:00:01 accounting_flush_time=00:00:00 joblog=false sharelog=00:00:00'
	qconf -Mconf global
	qconf -sc >complex
	echo 'gpu gpu INT <= YES YES 0 0' >>complex
	qconf -Mc complex
	printf 'group_name @allhosts\nhostlist cn01 cn02\n' >hosts
	qconf -Ahgrp hosts # makes the execution hosts, too
	qconf -mattr exechost complex_values slots=4 cn01
	qconf -mattr exechost complex_values slots=4,gpu=2 cn02
	qconf -Ap /usr/share/gridengine/util/resources/pe/smp
	printf 'name staff\ntype ACL\nfshare 0\noticket 0\nentries alice\n' >staff
	qconf -Au staff
	add_queue all.q @allhosts slots=4
	add_queue short.q cn01 seq_no=10 slots=2 h_rt=0:10:0
	add_queue staff.q cn01 seq_no=20 slots=1 user_lists=staff
}

"$1"
