BEGIN;

CREATE TABLE job_schema_version (
    version_num VARCHAR(32) NOT NULL, 
    CONSTRAINT job_schema_version_pkc PRIMARY KEY (version_num)
);

-- Running upgrade  -> 0001

CREATE TABLE IF NOT EXISTS jobs (
    id BIGSERIAL NOT NULL, 
    type VARCHAR(200) COLLATE "C" NOT NULL, 
    args VARCHAR, 
    result VARCHAR, 
    state VARCHAR(12) COLLATE "C" NOT NULL, 
    reason VARCHAR(40) COLLATE "C", 
    reason_text VARCHAR, 
    reason_job_id BIGINT, 
    parent_id BIGINT, 
    container BOOLEAN NOT NULL, 
    group_key VARCHAR(200) COLLATE "C" NOT NULL, 
    weight INTEGER NOT NULL, 
    priority INTEGER NOT NULL, 
    key VARCHAR(200) COLLATE "C", 
    key_for VARCHAR(8) COLLATE "C" NOT NULL, 
    key_slot VARCHAR(200) COLLATE "C", 
    lease_owner VARCHAR(240) COLLATE "C", 
    lease_expires TIMESTAMP WITH TIME ZONE, 
    in_flight BOOLEAN NOT NULL, 
    heartbeat_at TIMESTAMP WITH TIME ZONE, 
    run_after TIMESTAMP WITH TIME ZONE, 
    attempt INTEGER NOT NULL, 
    max_attempts INTEGER NOT NULL, 
    first_max_attempts INTEGER NOT NULL, 
    timeout DOUBLE PRECISION NOT NULL, 
    memory BIGINT, 
    uses VARCHAR, 
    spent VARCHAR, 
    on_failed VARCHAR(200) COLLATE "C", 
    given VARCHAR, 
    cancel_requested_at TIMESTAMP WITH TIME ZONE, 
    cancel_now BOOLEAN NOT NULL, 
    unmet_deps INTEGER NOT NULL, 
    closed_gates INTEGER NOT NULL, 
    open_children INTEGER NOT NULL, 
    done_children INTEGER NOT NULL, 
    failed_children INTEGER NOT NULL, 
    cancelled_children INTEGER NOT NULL, 
    progress_done DOUBLE PRECISION, 
    progress_total DOUBLE PRECISION, 
    progress_note VARCHAR, 
    batch VARCHAR(32) COLLATE "C", 
    batch_no INTEGER, 
    created_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    started_at TIMESTAMP WITH TIME ZONE, 
    ended_at TIMESTAMP WITH TIME ZONE, 
    PRIMARY KEY (id), 
    CONSTRAINT jobs_ended CHECK ((ended_at IS NOT NULL) = (state IN ('done','failed','cancelled'))), 
    CONSTRAINT jobs_in_flight CHECK (in_flight = (state IN ('leased','running'))), 
    CONSTRAINT jobs_result CHECK (result IS NULL OR container OR state IN ('done','waiting')), 
    CONSTRAINT jobs_state CHECK (state IN ('blocked','scheduled','ready','leased','running','waiting','done','failed','cancelled')), 
    CONSTRAINT jobs_claimable CHECK (state NOT IN ('ready','leased','running') OR (unmet_deps = 0 AND closed_gates = 0 AND NOT container)), 
    CONSTRAINT jobs_attempt CHECK (attempt >= 0 AND attempt <= max_attempts), 
    CONSTRAINT jobs_heartbeat CHECK (in_flight = (heartbeat_at IS NOT NULL)), 
    CONSTRAINT jobs_expires CHECK (in_flight = (lease_expires IS NOT NULL)), 
    CONSTRAINT jobs_owner CHECK (in_flight = (lease_owner IS NOT NULL)), 
    CONSTRAINT jobs_counters CHECK (unmet_deps >= 0 AND closed_gates >= 0 AND open_children >= 0), 
    CONSTRAINT jobs_rank CHECK (weight >= 1 AND priority BETWEEN -1000 AND 1000)
)
 WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.02);

CREATE INDEX jobs_due ON jobs (state, run_after) WHERE state = 'scheduled';

CREATE INDEX jobs_in_flight ON jobs (in_flight, lease_expires) WHERE in_flight;

CREATE UNIQUE INDEX jobs_key ON jobs (type, key_slot);

CREATE INDEX jobs_lease ON jobs (lease_owner) WHERE in_flight;

CREATE INDEX jobs_parent ON jobs (parent_id, state);

CREATE INDEX jobs_ready ON jobs (state, group_key, priority, created_at, id, type, weight) WHERE state = 'ready';

CREATE TABLE IF NOT EXISTS job_deps (
    job_id BIGINT NOT NULL, 
    depends_on_id BIGINT NOT NULL, 
    kind VARCHAR(8) COLLATE "C" NOT NULL, 
    position INTEGER NOT NULL, 
    satisfied BOOLEAN NOT NULL, 
    checked BOOLEAN NOT NULL, 
    PRIMARY KEY (job_id, depends_on_id), 
    CONSTRAINT job_deps_kind CHECK (kind IN ('ok','any','not_ok')), 
    CONSTRAINT job_deps_self CHECK (job_id <> depends_on_id)
);

CREATE INDEX job_deps_unchecked ON job_deps (checked, depends_on_id) WHERE NOT checked;

CREATE INDEX job_deps_upstream ON job_deps (depends_on_id, satisfied);

CREATE TABLE IF NOT EXISTS job_attempts (
    job_id BIGINT NOT NULL, 
    attempt INTEGER NOT NULL, 
    owner VARCHAR(240) COLLATE "C" NOT NULL, 
    supervisor VARCHAR(200) COLLATE "C" NOT NULL, 
    pid INTEGER, 
    start_ticks BIGINT, 
    claimed_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    started_at TIMESTAMP WITH TIME ZONE, 
    ended_at TIMESTAMP WITH TIME ZONE, 
    cause VARCHAR(12) COLLATE "C", 
    error VARCHAR, 
    exit_code INTEGER, 
    signal VARCHAR(20) COLLATE "C", 
    cpu_seconds DOUBLE PRECISION, 
    max_rss_bytes BIGINT, 
    stack_dump VARCHAR, 
    log_tail VARCHAR, 
    used VARCHAR, 
    spent VARCHAR, 
    PRIMARY KEY (job_id, attempt), 
    CONSTRAINT job_attempts_ended CHECK ((cause IS NULL) = (ended_at IS NULL))
);

CREATE TABLE IF NOT EXISTS job_supervisors (
    id VARCHAR(32) COLLATE "C" NOT NULL, 
    name VARCHAR(200) COLLATE "C" NOT NULL, 
    name_slot VARCHAR(200) COLLATE "C", 
    host VARCHAR(200) COLLATE "C" NOT NULL, 
    boot_id VARCHAR(64) COLLATE "C" NOT NULL, 
    pid INTEGER NOT NULL, 
    start_ticks BIGINT NOT NULL, 
    state VARCHAR(12) COLLATE "C" NOT NULL, 
    slots INTEGER NOT NULL, 
    types VARCHAR NOT NULL, 
    devices VARCHAR, 
    wakeup VARCHAR(8) COLLATE "C" NOT NULL, 
    started_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    heartbeat_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    ttl DOUBLE PRECISION NOT NULL, 
    PRIMARY KEY (id), 
    UNIQUE (name_slot)
);

CREATE TABLE IF NOT EXISTS job_usage (
    supervisor_id VARCHAR(32) COLLATE "C" NOT NULL, 
    group_key VARCHAR(200) COLLATE "C" NOT NULL, 
    slot_seconds DOUBLE PRECISION NOT NULL, 
    starts DOUBLE PRECISION NOT NULL, 
    as_of TIMESTAMP WITH TIME ZONE NOT NULL, 
    PRIMARY KEY (supervisor_id, group_key)
);

CREATE TABLE IF NOT EXISTS job_groups (
    group_key VARCHAR(200) COLLATE "C" NOT NULL, 
    weight INTEGER NOT NULL, 
    PRIMARY KEY (group_key)
);

CREATE TABLE IF NOT EXISTS job_limits (
    name VARCHAR(200) COLLATE "C" NOT NULL, 
    group_key VARCHAR(200) COLLATE "C" NOT NULL, 
    kind VARCHAR(12) COLLATE "C" NOT NULL, 
    amount NUMERIC(24, 6) NOT NULL, 
    per VARCHAR(20) COLLATE "C", 
    each_group BOOLEAN NOT NULL, 
    PRIMARY KEY (name, group_key), 
    CONSTRAINT job_limits_kind CHECK (kind IN ('resource','rate','budget'))
);

CREATE TABLE IF NOT EXISTS job_holds (
    kind VARCHAR(12) COLLATE "C" NOT NULL, 
    name VARCHAR(200) COLLATE "C" NOT NULL, 
    reason VARCHAR, 
    since TIMESTAMP WITH TIME ZONE NOT NULL, 
    until TIMESTAMP WITH TIME ZONE, 
    PRIMARY KEY (kind, name)
);

INSERT INTO job_schema_version (version_num) VALUES ('0001') RETURNING job_schema_version.version_num;

-- Running upgrade 0001 -> 0002

ALTER TABLE job_supervisors ADD COLUMN drain_requested_at TIMESTAMP WITH TIME ZONE;

ALTER TABLE job_supervisors ADD COLUMN heartbeat DOUBLE PRECISION;

UPDATE job_schema_version SET version_num='0002' WHERE job_schema_version.version_num = '0001';

-- Running upgrade 0002 -> 0003

ALTER TABLE jobs ADD COLUMN awaits_child BOOLEAN DEFAULT '0' NOT NULL;

ALTER TABLE jobs ADD COLUMN not_needed_children INTEGER DEFAULT 0 NOT NULL;

CREATE TABLE job_intents (
    id BIGSERIAL NOT NULL, 
    kind VARCHAR(8) COLLATE "C" NOT NULL, 
    job_id BIGINT NOT NULL, 
    after_id BIGINT NOT NULL, 
    PRIMARY KEY (id), 
    CONSTRAINT job_intents_kind CHECK (kind IN ('edges','members','child','recheck'))
)
 WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

CREATE INDEX job_intents_job ON job_intents (job_id, kind);

UPDATE job_schema_version SET version_num='0003' WHERE job_schema_version.version_num = '0002';

-- Running upgrade 0003 -> 0004

ALTER TABLE jobs ADD COLUMN uses_key VARCHAR(16) COLLATE "C" DEFAULT '' NOT NULL;

ALTER TABLE job_attempts ADD COLUMN devices VARCHAR;

ALTER TABLE job_supervisors ADD COLUMN type_uses VARCHAR;

ALTER TABLE job_supervisors ADD COLUMN only_groups VARCHAR;

CREATE TABLE job_counters (
    name VARCHAR(200) COLLATE "C" NOT NULL, 
    group_key VARCHAR(200) COLLATE "C" NOT NULL, 
    period VARCHAR(20) COLLATE "C" NOT NULL, 
    used NUMERIC(24, 6) NOT NULL, 
    PRIMARY KEY (name, group_key, period)
);

CREATE TABLE job_charges (
    id BIGSERIAL NOT NULL, 
    name VARCHAR(200) COLLATE "C" NOT NULL, 
    group_key VARCHAR(200) COLLATE "C" NOT NULL, 
    job_id BIGINT NOT NULL, 
    attempt INTEGER NOT NULL, 
    kind VARCHAR(12) COLLATE "C" NOT NULL, 
    period VARCHAR(20) COLLATE "C" NOT NULL, 
    counted_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    amount NUMERIC(24, 6) NOT NULL, 
    estimate BOOLEAN NOT NULL, 
    PRIMARY KEY (id), 
    CONSTRAINT job_charges_kind CHECK (kind IN ('resource','rate','budget'))
)
 WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

CREATE INDEX job_charges_limit ON job_charges (name, group_key, counted_at);

CREATE INDEX job_charges_job ON job_charges (job_id, attempt);

CREATE INDEX jobs_begun ON jobs (state, group_key, type) WHERE state = 'waiting';

DROP INDEX jobs_ready;

CREATE INDEX jobs_ready ON jobs (state, group_key, type, uses_key, priority, created_at, id, weight) WHERE state = 'ready';

UPDATE job_schema_version SET version_num='0004' WHERE job_schema_version.version_num = '0003';

COMMIT;


INSERT INTO jobs ("id", "type", "args", "result", "state", "reason", "reason_text", "reason_job_id", "parent_id", "container", "group_key", "weight", "priority", "key", "key_for", "key_slot", "lease_owner", "lease_expires", "in_flight", "heartbeat_at", "run_after", "attempt", "max_attempts", "first_max_attempts", "timeout", "memory", "uses", "spent", "on_failed", "given", "cancel_requested_at", "cancel_now", "unmet_deps", "closed_gates", "open_children", "done_children", "failed_children", "cancelled_children", "progress_done", "progress_total", "progress_note", "batch", "batch_no", "created_at", "updated_at", "started_at", "ended_at", "awaits_child", "not_needed_children", "uses_key") VALUES (6, 'asynchronous', '{"number":9}', NULL, 'scheduled', NULL, NULL, NULL, NULL, FALSE, 'default', 1, 0, NULL, 'open', NULL, NULL, NULL, FALSE, NULL, '2027-09-26 19:21:31.453667+05:45', 0, 5, 5, 86400.0, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 'c157890982b84ded8a1caea5592d53bd', 5, '2026-11-30 19:21:31.453667+05:45', '2026-11-30 19:21:31.453667+05:45', NULL, NULL, FALSE, 0, '');
INSERT INTO jobs ("id", "type", "args", "result", "state", "reason", "reason_text", "reason_job_id", "parent_id", "container", "group_key", "weight", "priority", "key", "key_for", "key_slot", "lease_owner", "lease_expires", "in_flight", "heartbeat_at", "run_after", "attempt", "max_attempts", "first_max_attempts", "timeout", "memory", "uses", "spent", "on_failed", "given", "cancel_requested_at", "cancel_now", "unmet_deps", "closed_gates", "open_children", "done_children", "failed_children", "cancelled_children", "progress_done", "progress_total", "progress_note", "batch", "batch_no", "created_at", "updated_at", "started_at", "ended_at", "awaits_child", "not_needed_children", "uses_key") VALUES (7, 'asynchronous', '{"number":10}', NULL, 'ready', NULL, NULL, NULL, NULL, FALSE, 'default', 1, 0, 'it''s a \ ''key''', 'ever', 'it''s a \ ''key''', NULL, NULL, FALSE, NULL, NULL, 0, 5, 5, 86400.0, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 'c157890982b84ded8a1caea5592d53bd', 6, '2026-11-30 19:21:31.453667+05:45', '2026-11-30 19:21:31.453667+05:45', NULL, NULL, FALSE, 0, '');
INSERT INTO jobs ("id", "type", "args", "result", "state", "reason", "reason_text", "reason_job_id", "parent_id", "container", "group_key", "weight", "priority", "key", "key_for", "key_slot", "lease_owner", "lease_expires", "in_flight", "heartbeat_at", "run_after", "attempt", "max_attempts", "first_max_attempts", "timeout", "memory", "uses", "spent", "on_failed", "given", "cancel_requested_at", "cancel_now", "unmet_deps", "closed_gates", "open_children", "done_children", "failed_children", "cancelled_children", "progress_done", "progress_total", "progress_note", "batch", "batch_no", "created_at", "updated_at", "started_at", "ended_at", "awaits_child", "not_needed_children", "uses_key") VALUES (8, 'asynchronous', '{"number":11}', NULL, 'blocked', NULL, NULL, NULL, NULL, FALSE, 'default', 1, 0, NULL, 'open', NULL, NULL, NULL, FALSE, NULL, NULL, 0, 5, 5, 86400.0, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, '6c1f59f1c4ce422dac4d787d8c2599eb', 0, '2026-11-30 19:21:33.537970+05:45', '2026-11-30 19:21:33.537970+05:45', NULL, NULL, FALSE, 0, '');
INSERT INTO jobs ("id", "type", "args", "result", "state", "reason", "reason_text", "reason_job_id", "parent_id", "container", "group_key", "weight", "priority", "key", "key_for", "key_slot", "lease_owner", "lease_expires", "in_flight", "heartbeat_at", "run_after", "attempt", "max_attempts", "first_max_attempts", "timeout", "memory", "uses", "spent", "on_failed", "given", "cancel_requested_at", "cancel_now", "unmet_deps", "closed_gates", "open_children", "done_children", "failed_children", "cancelled_children", "progress_done", "progress_total", "progress_note", "batch", "batch_no", "created_at", "updated_at", "started_at", "ended_at", "awaits_child", "not_needed_children", "uses_key") VALUES (9, 'asynchronous', '{"number":12}', NULL, 'cancelled', 'cancelled', 'cancelled by an operator', NULL, NULL, FALSE, 'default', 1, 0, NULL, 'open', NULL, NULL, NULL, FALSE, NULL, NULL, 0, 5, 5, 86400.0, NULL, NULL, NULL, NULL, NULL, '2026-11-30 19:21:35.864475+05:45', FALSE, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, '7b1bc7ae32ed4505969240cbf231140e', 0, '2026-11-30 19:21:35.576707+05:45', '2026-11-30 19:21:35.864475+05:45', NULL, '2026-11-30 19:21:35.864475+05:45', FALSE, 0, '');
INSERT INTO jobs ("id", "type", "args", "result", "state", "reason", "reason_text", "reason_job_id", "parent_id", "container", "group_key", "weight", "priority", "key", "key_for", "key_slot", "lease_owner", "lease_expires", "in_flight", "heartbeat_at", "run_after", "attempt", "max_attempts", "first_max_attempts", "timeout", "memory", "uses", "spent", "on_failed", "given", "cancel_requested_at", "cancel_now", "unmet_deps", "closed_gates", "open_children", "done_children", "failed_children", "cancelled_children", "progress_done", "progress_total", "progress_note", "batch", "batch_no", "created_at", "updated_at", "started_at", "ended_at", "awaits_child", "not_needed_children", "uses_key") VALUES (3, 'asynchronous', '{"number":1}', NULL, 'running', NULL, NULL, NULL, NULL, FALSE, 'default', 1, 0, NULL, 'open', NULL, 'old/0123456789abcdef', '2026-11-30 19:21:36.603239+05:45', TRUE, '2026-11-30 19:21:36.602239+05:45', NULL, 1, 5, 5, 86400.0, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 'c157890982b84ded8a1caea5592d53bd', 2, '2026-11-30 19:21:31.453667+05:45', '2026-11-30 19:21:36.602239+05:45', '2026-11-30 19:21:36.602239+05:45', NULL, FALSE, 0, '');
INSERT INTO jobs ("id", "type", "args", "result", "state", "reason", "reason_text", "reason_job_id", "parent_id", "container", "group_key", "weight", "priority", "key", "key_for", "key_slot", "lease_owner", "lease_expires", "in_flight", "heartbeat_at", "run_after", "attempt", "max_attempts", "first_max_attempts", "timeout", "memory", "uses", "spent", "on_failed", "given", "cancel_requested_at", "cancel_now", "unmet_deps", "closed_gates", "open_children", "done_children", "failed_children", "cancelled_children", "progress_done", "progress_total", "progress_note", "batch", "batch_no", "created_at", "updated_at", "started_at", "ended_at", "awaits_child", "not_needed_children", "uses_key") VALUES (1, 'asynchronous', '{"number":1180591620717411303424}', '{"b":1,"a":"ü\\"}', 'done', NULL, NULL, NULL, NULL, FALSE, 'Äé😀', 3, -5, 'order-1', 'open', NULL, NULL, NULL, FALSE, NULL, NULL, 1, 5, 5, 86400.0, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 'c157890982b84ded8a1caea5592d53bd', 0, '2026-11-30 19:21:31.453667+05:45', '2026-11-30 19:21:36.602239+05:45', '2026-11-30 19:21:36.602239+05:45', '2026-11-30 19:21:36.602239+05:45', FALSE, 0, '');
INSERT INTO jobs ("id", "type", "args", "result", "state", "reason", "reason_text", "reason_job_id", "parent_id", "container", "group_key", "weight", "priority", "key", "key_for", "key_slot", "lease_owner", "lease_expires", "in_flight", "heartbeat_at", "run_after", "attempt", "max_attempts", "first_max_attempts", "timeout", "memory", "uses", "spent", "on_failed", "given", "cancel_requested_at", "cancel_now", "unmet_deps", "closed_gates", "open_children", "done_children", "failed_children", "cancelled_children", "progress_done", "progress_total", "progress_note", "batch", "batch_no", "created_at", "updated_at", "started_at", "ended_at", "awaits_child", "not_needed_children", "uses_key") VALUES (4, 'asynchronous', '{"number":7}', NULL, 'ready', NULL, NULL, NULL, NULL, FALSE, 'default', 1, 0, NULL, 'open', NULL, NULL, NULL, FALSE, NULL, NULL, 0, 5, 5, 86400.0, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 'c157890982b84ded8a1caea5592d53bd', 3, '2026-11-30 19:21:31.453667+05:45', '2026-11-30 19:21:36.602239+05:45', NULL, NULL, FALSE, 0, '');
INSERT INTO jobs ("id", "type", "args", "result", "state", "reason", "reason_text", "reason_job_id", "parent_id", "container", "group_key", "weight", "priority", "key", "key_for", "key_slot", "lease_owner", "lease_expires", "in_flight", "heartbeat_at", "run_after", "attempt", "max_attempts", "first_max_attempts", "timeout", "memory", "uses", "spent", "on_failed", "given", "cancel_requested_at", "cancel_now", "unmet_deps", "closed_gates", "open_children", "done_children", "failed_children", "cancelled_children", "progress_done", "progress_total", "progress_note", "batch", "batch_no", "created_at", "updated_at", "started_at", "ended_at", "awaits_child", "not_needed_children", "uses_key") VALUES (2, 'ends', '{"how":"fail"}', NULL, 'failed', 'fail', 'no use; 100 %', NULL, NULL, FALSE, 'default', 1, 0, NULL, 'open', NULL, NULL, NULL, FALSE, NULL, NULL, 1, 5, 5, 86400.0, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 'c157890982b84ded8a1caea5592d53bd', 1, '2026-11-30 19:21:31.453667+05:45', '2026-11-30 19:21:36.602239+05:45', '2026-11-30 19:21:36.602239+05:45', '2026-11-30 19:21:36.602239+05:45', FALSE, 0, '');
INSERT INTO jobs ("id", "type", "args", "result", "state", "reason", "reason_text", "reason_job_id", "parent_id", "container", "group_key", "weight", "priority", "key", "key_for", "key_slot", "lease_owner", "lease_expires", "in_flight", "heartbeat_at", "run_after", "attempt", "max_attempts", "first_max_attempts", "timeout", "memory", "uses", "spent", "on_failed", "given", "cancel_requested_at", "cancel_now", "unmet_deps", "closed_gates", "open_children", "done_children", "failed_children", "cancelled_children", "progress_done", "progress_total", "progress_note", "batch", "batch_no", "created_at", "updated_at", "started_at", "ended_at", "awaits_child", "not_needed_children", "uses_key") VALUES (5, 'asynchronous', '{"number":8}', NULL, 'cancelled', 'dependency', 'job 2 did not end well', 2, NULL, FALSE, 'default', 1, 0, NULL, 'open', NULL, NULL, NULL, FALSE, NULL, NULL, 0, 5, 5, 86400.0, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, 'c157890982b84ded8a1caea5592d53bd', 4, '2026-11-30 19:21:31.453667+05:45', '2026-11-30 19:21:36.602239+05:45', NULL, '2026-11-30 19:21:36.602239+05:45', FALSE, 0, '');
INSERT INTO job_deps ("job_id", "depends_on_id", "kind", "position", "satisfied", "checked") VALUES (8, 3, 'ok', 0, FALSE, FALSE);
INSERT INTO job_deps ("job_id", "depends_on_id", "kind", "position", "satisfied", "checked") VALUES (4, 1, 'ok', 0, TRUE, TRUE);
INSERT INTO job_deps ("job_id", "depends_on_id", "kind", "position", "satisfied", "checked") VALUES (5, 2, 'ok', 0, FALSE, TRUE);
INSERT INTO job_attempts ("job_id", "attempt", "owner", "supervisor", "pid", "start_ticks", "claimed_at", "started_at", "ended_at", "cause", "error", "exit_code", "signal", "cpu_seconds", "max_rss_bytes", "stack_dump", "log_tail", "used", "spent", "devices") VALUES (3, 1, 'old/0123456789abcdef', 'old', 1, NULL, '2026-11-30 19:21:36.602239+05:45', '2026-11-30 19:21:36.602239+05:45', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO job_attempts ("job_id", "attempt", "owner", "supervisor", "pid", "start_ticks", "claimed_at", "started_at", "ended_at", "cause", "error", "exit_code", "signal", "cpu_seconds", "max_rss_bytes", "stack_dump", "log_tail", "used", "spent", "devices") VALUES (1, 1, 'old/0123456789abcdef', 'old', 1, NULL, '2026-11-30 19:21:36.602239+05:45', '2026-11-30 19:21:36.602239+05:45', '2026-11-30 19:21:36.602239+05:45', 'done', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO job_attempts ("job_id", "attempt", "owner", "supervisor", "pid", "start_ticks", "claimed_at", "started_at", "ended_at", "cause", "error", "exit_code", "signal", "cpu_seconds", "max_rss_bytes", "stack_dump", "log_tail", "used", "spent", "devices") VALUES (2, 1, 'old/0123456789abcdef', 'old', 1, NULL, '2026-11-30 19:21:36.602239+05:45', '2026-11-30 19:21:36.602239+05:45', '2026-11-30 19:21:36.602239+05:45', 'fail', 'no use; 100 %', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
SELECT setval(pg_get_serial_sequence('jobs', 'id'), (SELECT max(id) FROM jobs));
