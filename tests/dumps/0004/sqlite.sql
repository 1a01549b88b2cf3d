BEGIN;

CREATE TABLE job_schema_version (
    version_num VARCHAR(32) NOT NULL, 
    CONSTRAINT job_schema_version_pkc PRIMARY KEY (version_num)
);

-- Running upgrade  -> 0001

CREATE TABLE IF NOT EXISTS jobs (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
    type VARCHAR(200) NOT NULL, 
    args TEXT, 
    result TEXT, 
    state VARCHAR(12) NOT NULL, 
    reason VARCHAR(40), 
    reason_text TEXT, 
    reason_job_id INTEGER, 
    parent_id INTEGER, 
    container BOOLEAN NOT NULL, 
    group_key VARCHAR(200) NOT NULL, 
    weight INTEGER NOT NULL, 
    priority INTEGER NOT NULL, 
    "key" VARCHAR(200), 
    key_for VARCHAR(8) NOT NULL, 
    key_slot VARCHAR(200), 
    lease_owner VARCHAR(240), 
    lease_expires DATETIME, 
    in_flight BOOLEAN NOT NULL, 
    heartbeat_at DATETIME, 
    run_after DATETIME, 
    attempt INTEGER NOT NULL, 
    max_attempts INTEGER NOT NULL, 
    first_max_attempts INTEGER NOT NULL, 
    timeout DOUBLE NOT NULL, 
    memory INTEGER, 
    uses TEXT, 
    spent TEXT, 
    on_failed VARCHAR(200), 
    given TEXT, 
    cancel_requested_at DATETIME, 
    cancel_now BOOLEAN NOT NULL, 
    unmet_deps INTEGER NOT NULL, 
    closed_gates INTEGER NOT NULL, 
    open_children INTEGER NOT NULL, 
    done_children INTEGER NOT NULL, 
    failed_children INTEGER NOT NULL, 
    cancelled_children INTEGER NOT NULL, 
    progress_done DOUBLE, 
    progress_total DOUBLE, 
    progress_note TEXT, 
    batch VARCHAR(32), 
    batch_no INTEGER, 
    created_at DATETIME NOT NULL, 
    updated_at DATETIME NOT NULL, 
    started_at DATETIME, 
    ended_at DATETIME, 
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
);

CREATE INDEX jobs_due ON jobs (state, run_after) WHERE state = 'scheduled';

CREATE INDEX jobs_in_flight ON jobs (in_flight, lease_expires) WHERE in_flight = 1;

CREATE UNIQUE INDEX jobs_key ON jobs (type, key_slot);

CREATE INDEX jobs_lease ON jobs (lease_owner) WHERE in_flight = 1;

CREATE INDEX jobs_parent ON jobs (parent_id, state);

CREATE INDEX jobs_ready ON jobs (state, group_key, priority, created_at, id, type, weight) WHERE state = 'ready';

CREATE TABLE IF NOT EXISTS job_deps (
    job_id INTEGER NOT NULL, 
    depends_on_id INTEGER NOT NULL, 
    kind VARCHAR(8) NOT NULL, 
    position INTEGER NOT NULL, 
    satisfied BOOLEAN NOT NULL, 
    checked BOOLEAN NOT NULL, 
    PRIMARY KEY (job_id, depends_on_id), 
    CONSTRAINT job_deps_kind CHECK (kind IN ('ok','any','not_ok')), 
    CONSTRAINT job_deps_self CHECK (job_id <> depends_on_id)
);

CREATE INDEX job_deps_unchecked ON job_deps (checked, depends_on_id) WHERE checked = 0;

CREATE INDEX job_deps_upstream ON job_deps (depends_on_id, satisfied);

CREATE TABLE IF NOT EXISTS job_attempts (
    job_id INTEGER NOT NULL, 
    attempt INTEGER NOT NULL, 
    owner VARCHAR(240) NOT NULL, 
    supervisor VARCHAR(200) NOT NULL, 
    pid INTEGER, 
    start_ticks INTEGER, 
    claimed_at DATETIME NOT NULL, 
    started_at DATETIME, 
    ended_at DATETIME, 
    cause VARCHAR(12), 
    error TEXT, 
    exit_code INTEGER, 
    signal VARCHAR(20), 
    cpu_seconds DOUBLE, 
    max_rss_bytes INTEGER, 
    stack_dump TEXT, 
    log_tail TEXT, 
    used TEXT, 
    spent TEXT, 
    PRIMARY KEY (job_id, attempt), 
    CONSTRAINT job_attempts_ended CHECK ((cause IS NULL) = (ended_at IS NULL))
);

CREATE TABLE IF NOT EXISTS job_supervisors (
    id VARCHAR(32) NOT NULL, 
    name VARCHAR(200) NOT NULL, 
    name_slot VARCHAR(200), 
    host VARCHAR(200) NOT NULL, 
    boot_id VARCHAR(64) NOT NULL, 
    pid INTEGER NOT NULL, 
    start_ticks INTEGER NOT NULL, 
    state VARCHAR(12) NOT NULL, 
    slots INTEGER NOT NULL, 
    types TEXT NOT NULL, 
    devices TEXT, 
    wakeup VARCHAR(8) NOT NULL, 
    started_at DATETIME NOT NULL, 
    heartbeat_at DATETIME NOT NULL, 
    ttl DOUBLE NOT NULL, 
    PRIMARY KEY (id), 
    UNIQUE (name_slot)
);

CREATE TABLE IF NOT EXISTS job_usage (
    supervisor_id VARCHAR(32) NOT NULL, 
    group_key VARCHAR(200) NOT NULL, 
    slot_seconds DOUBLE NOT NULL, 
    starts DOUBLE NOT NULL, 
    as_of DATETIME NOT NULL, 
    PRIMARY KEY (supervisor_id, group_key)
);

CREATE TABLE IF NOT EXISTS job_groups (
    group_key VARCHAR(200) NOT NULL, 
    weight INTEGER NOT NULL, 
    PRIMARY KEY (group_key)
);

CREATE TABLE IF NOT EXISTS job_limits (
    name VARCHAR(200) NOT NULL, 
    group_key VARCHAR(200) NOT NULL, 
    kind VARCHAR(12) NOT NULL, 
    amount NUMERIC(24, 6) NOT NULL, 
    per VARCHAR(20), 
    each_group BOOLEAN NOT NULL, 
    PRIMARY KEY (name, group_key), 
    CONSTRAINT job_limits_kind CHECK (kind IN ('resource','rate','budget'))
);

CREATE TABLE IF NOT EXISTS job_holds (
    kind VARCHAR(12) NOT NULL, 
    name VARCHAR(200) NOT NULL, 
    reason TEXT, 
    since DATETIME NOT NULL, 
    until DATETIME, 
    PRIMARY KEY (kind, name)
);

INSERT INTO job_schema_version (version_num) VALUES ('0001') RETURNING version_num;

-- Running upgrade 0001 -> 0002

ALTER TABLE job_supervisors ADD COLUMN drain_requested_at DATETIME;

ALTER TABLE job_supervisors ADD COLUMN heartbeat DOUBLE;

UPDATE job_schema_version SET version_num='0002' WHERE job_schema_version.version_num = '0001';

-- Running upgrade 0002 -> 0003

ALTER TABLE jobs ADD COLUMN awaits_child BOOLEAN DEFAULT '0' NOT NULL;

ALTER TABLE jobs ADD COLUMN not_needed_children INTEGER DEFAULT 0 NOT NULL;

CREATE TABLE job_intents (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
    kind VARCHAR(8) NOT NULL, 
    job_id INTEGER NOT NULL, 
    after_id INTEGER NOT NULL, 
    CONSTRAINT job_intents_kind CHECK (kind IN ('edges','members','child','recheck'))
);

CREATE INDEX job_intents_job ON job_intents (job_id, kind);

UPDATE job_schema_version SET version_num='0003' WHERE job_schema_version.version_num = '0002';

-- Running upgrade 0003 -> 0004

ALTER TABLE jobs ADD COLUMN uses_key VARCHAR(16) DEFAULT '' NOT NULL;

ALTER TABLE job_attempts ADD COLUMN devices TEXT;

ALTER TABLE job_supervisors ADD COLUMN type_uses TEXT;

ALTER TABLE job_supervisors ADD COLUMN only_groups TEXT;

CREATE TABLE job_counters (
    name VARCHAR(200) NOT NULL, 
    group_key VARCHAR(200) NOT NULL, 
    period VARCHAR(20) NOT NULL, 
    used BIGINT NOT NULL, 
    PRIMARY KEY (name, group_key, period)
);

CREATE TABLE job_charges (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
    name VARCHAR(200) NOT NULL, 
    group_key VARCHAR(200) NOT NULL, 
    job_id INTEGER NOT NULL, 
    attempt INTEGER NOT NULL, 
    kind VARCHAR(12) NOT NULL, 
    period VARCHAR(20) NOT NULL, 
    counted_at DATETIME NOT NULL, 
    amount BIGINT NOT NULL, 
    estimate BOOLEAN NOT NULL, 
    CONSTRAINT job_charges_kind CHECK (kind IN ('resource','rate','budget'))
);

CREATE INDEX job_charges_limit ON job_charges (name, group_key, counted_at);

CREATE INDEX job_charges_job ON job_charges (job_id, attempt);

DROP TABLE job_limits;

CREATE TABLE job_limits (
    name VARCHAR(200) NOT NULL, 
    group_key VARCHAR(200) NOT NULL, 
    kind VARCHAR(12) NOT NULL, 
    amount BIGINT NOT NULL, 
    per VARCHAR(20), 
    each_group BOOLEAN NOT NULL, 
    PRIMARY KEY (name, group_key), 
    CONSTRAINT job_limits_kind CHECK (kind IN ('resource','rate','budget'))
);

CREATE INDEX jobs_begun ON jobs (state, group_key, type) WHERE state = 'waiting';

DROP INDEX jobs_ready;

CREATE INDEX jobs_ready ON jobs (state, group_key, type, uses_key, priority, created_at, id, weight) WHERE state = 'ready';

UPDATE job_schema_version SET version_num='0004' WHERE job_schema_version.version_num = '0003';

COMMIT;


INSERT INTO jobs ("id", "type", "args", "result", "state", "reason", "reason_text", "reason_job_id", "parent_id", "container", "group_key", "weight", "priority", "key", "key_for", "key_slot", "lease_owner", "lease_expires", "in_flight", "heartbeat_at", "run_after", "attempt", "max_attempts", "first_max_attempts", "timeout", "memory", "uses", "spent", "on_failed", "given", "cancel_requested_at", "cancel_now", "unmet_deps", "closed_gates", "open_children", "done_children", "failed_children", "cancelled_children", "progress_done", "progress_total", "progress_note", "batch", "batch_no", "created_at", "updated_at", "started_at", "ended_at", "awaits_child", "not_needed_children", "uses_key") VALUES (1, 'asynchronous', '{"number":1180591620717411303424}', '{"b":1,"a":"ü\\"}', 'done', NULL, NULL, NULL, NULL, 0, 'Äé😀', 3, -5, 'order-1', 'open', NULL, NULL, NULL, 0, NULL, NULL, 1, 5, 5, 86400.0, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 'c14a8f9ea0364ccfae31a57ed3136fba', 0, '2026-11-30 13:36:10.364998', '2026-11-30 13:36:10.934754', '2026-11-30 13:36:10.934754', '2026-11-30 13:36:10.934754', 0, 0, '');
INSERT INTO jobs ("id", "type", "args", "result", "state", "reason", "reason_text", "reason_job_id", "parent_id", "container", "group_key", "weight", "priority", "key", "key_for", "key_slot", "lease_owner", "lease_expires", "in_flight", "heartbeat_at", "run_after", "attempt", "max_attempts", "first_max_attempts", "timeout", "memory", "uses", "spent", "on_failed", "given", "cancel_requested_at", "cancel_now", "unmet_deps", "closed_gates", "open_children", "done_children", "failed_children", "cancelled_children", "progress_done", "progress_total", "progress_note", "batch", "batch_no", "created_at", "updated_at", "started_at", "ended_at", "awaits_child", "not_needed_children", "uses_key") VALUES (2, 'ends', '{"how":"fail"}', NULL, 'failed', 'fail', 'no use; 100 %', NULL, NULL, 0, 'default', 1, 0, NULL, 'open', NULL, NULL, NULL, 0, NULL, NULL, 1, 5, 5, 86400.0, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 'c14a8f9ea0364ccfae31a57ed3136fba', 1, '2026-11-30 13:36:10.364998', '2026-11-30 13:36:10.934754', '2026-11-30 13:36:10.934754', '2026-11-30 13:36:10.934754', 0, 0, '');
INSERT INTO jobs ("id", "type", "args", "result", "state", "reason", "reason_text", "reason_job_id", "parent_id", "container", "group_key", "weight", "priority", "key", "key_for", "key_slot", "lease_owner", "lease_expires", "in_flight", "heartbeat_at", "run_after", "attempt", "max_attempts", "first_max_attempts", "timeout", "memory", "uses", "spent", "on_failed", "given", "cancel_requested_at", "cancel_now", "unmet_deps", "closed_gates", "open_children", "done_children", "failed_children", "cancelled_children", "progress_done", "progress_total", "progress_note", "batch", "batch_no", "created_at", "updated_at", "started_at", "ended_at", "awaits_child", "not_needed_children", "uses_key") VALUES (3, 'asynchronous', '{"number":1}', NULL, 'running', NULL, NULL, NULL, NULL, 0, 'default', 1, 0, NULL, 'open', NULL, 'old/0123456789abcdef', '2026-11-30 13:36:10.935754', 1, '2026-11-30 13:36:10.934754', NULL, 1, 5, 5, 86400.0, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 'c14a8f9ea0364ccfae31a57ed3136fba', 2, '2026-11-30 13:36:10.364998', '2026-11-30 13:36:10.934754', '2026-11-30 13:36:10.934754', NULL, 0, 0, '');
INSERT INTO jobs ("id", "type", "args", "result", "state", "reason", "reason_text", "reason_job_id", "parent_id", "container", "group_key", "weight", "priority", "key", "key_for", "key_slot", "lease_owner", "lease_expires", "in_flight", "heartbeat_at", "run_after", "attempt", "max_attempts", "first_max_attempts", "timeout", "memory", "uses", "spent", "on_failed", "given", "cancel_requested_at", "cancel_now", "unmet_deps", "closed_gates", "open_children", "done_children", "failed_children", "cancelled_children", "progress_done", "progress_total", "progress_note", "batch", "batch_no", "created_at", "updated_at", "started_at", "ended_at", "awaits_child", "not_needed_children", "uses_key") VALUES (4, 'asynchronous', '{"number":7}', NULL, 'ready', NULL, NULL, NULL, NULL, 0, 'default', 1, 0, NULL, 'open', NULL, NULL, NULL, 0, NULL, NULL, 0, 5, 5, 86400.0, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 'c14a8f9ea0364ccfae31a57ed3136fba', 3, '2026-11-30 13:36:10.364998', '2026-11-30 13:36:10.934754', NULL, NULL, 0, 0, '');
INSERT INTO jobs ("id", "type", "args", "result", "state", "reason", "reason_text", "reason_job_id", "parent_id", "container", "group_key", "weight", "priority", "key", "key_for", "key_slot", "lease_owner", "lease_expires", "in_flight", "heartbeat_at", "run_after", "attempt", "max_attempts", "first_max_attempts", "timeout", "memory", "uses", "spent", "on_failed", "given", "cancel_requested_at", "cancel_now", "unmet_deps", "closed_gates", "open_children", "done_children", "failed_children", "cancelled_children", "progress_done", "progress_total", "progress_note", "batch", "batch_no", "created_at", "updated_at", "started_at", "ended_at", "awaits_child", "not_needed_children", "uses_key") VALUES (5, 'asynchronous', '{"number":8}', NULL, 'cancelled', 'dependency', 'job 2 did not end well', 2, NULL, 0, 'default', 1, 0, NULL, 'open', NULL, NULL, NULL, 0, NULL, NULL, 0, 5, 5, 86400.0, NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, 'c14a8f9ea0364ccfae31a57ed3136fba', 4, '2026-11-30 13:36:10.364998', '2026-11-30 13:36:10.934754', NULL, '2026-11-30 13:36:10.934754', 0, 0, '');
INSERT INTO jobs ("id", "type", "args", "result", "state", "reason", "reason_text", "reason_job_id", "parent_id", "container", "group_key", "weight", "priority", "key", "key_for", "key_slot", "lease_owner", "lease_expires", "in_flight", "heartbeat_at", "run_after", "attempt", "max_attempts", "first_max_attempts", "timeout", "memory", "uses", "spent", "on_failed", "given", "cancel_requested_at", "cancel_now", "unmet_deps", "closed_gates", "open_children", "done_children", "failed_children", "cancelled_children", "progress_done", "progress_total", "progress_note", "batch", "batch_no", "created_at", "updated_at", "started_at", "ended_at", "awaits_child", "not_needed_children", "uses_key") VALUES (6, 'asynchronous', '{"number":9}', NULL, 'scheduled', NULL, NULL, NULL, NULL, 0, 'default', 1, 0, NULL, 'open', NULL, NULL, NULL, 0, NULL, '2027-09-26 13:36:10.364998', 0, 5, 5, 86400.0, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 'c14a8f9ea0364ccfae31a57ed3136fba', 5, '2026-11-30 13:36:10.364998', '2026-11-30 13:36:10.364998', NULL, NULL, 0, 0, '');
INSERT INTO jobs ("id", "type", "args", "result", "state", "reason", "reason_text", "reason_job_id", "parent_id", "container", "group_key", "weight", "priority", "key", "key_for", "key_slot", "lease_owner", "lease_expires", "in_flight", "heartbeat_at", "run_after", "attempt", "max_attempts", "first_max_attempts", "timeout", "memory", "uses", "spent", "on_failed", "given", "cancel_requested_at", "cancel_now", "unmet_deps", "closed_gates", "open_children", "done_children", "failed_children", "cancelled_children", "progress_done", "progress_total", "progress_note", "batch", "batch_no", "created_at", "updated_at", "started_at", "ended_at", "awaits_child", "not_needed_children", "uses_key") VALUES (7, 'asynchronous', '{"number":10}', NULL, 'ready', NULL, NULL, NULL, NULL, 0, 'default', 1, 0, 'it''s a \ ''key''', 'ever', 'it''s a \ ''key''', NULL, NULL, 0, NULL, NULL, 0, 5, 5, 86400.0, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 'c14a8f9ea0364ccfae31a57ed3136fba', 6, '2026-11-30 13:36:10.364998', '2026-11-30 13:36:10.364998', NULL, NULL, 0, 0, '');
INSERT INTO jobs ("id", "type", "args", "result", "state", "reason", "reason_text", "reason_job_id", "parent_id", "container", "group_key", "weight", "priority", "key", "key_for", "key_slot", "lease_owner", "lease_expires", "in_flight", "heartbeat_at", "run_after", "attempt", "max_attempts", "first_max_attempts", "timeout", "memory", "uses", "spent", "on_failed", "given", "cancel_requested_at", "cancel_now", "unmet_deps", "closed_gates", "open_children", "done_children", "failed_children", "cancelled_children", "progress_done", "progress_total", "progress_note", "batch", "batch_no", "created_at", "updated_at", "started_at", "ended_at", "awaits_child", "not_needed_children", "uses_key") VALUES (8, 'asynchronous', '{"number":11}', NULL, 'blocked', NULL, NULL, NULL, NULL, 0, 'default', 1, 0, NULL, 'open', NULL, NULL, NULL, 0, NULL, NULL, 0, 5, 5, 86400.0, NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, '06364a3c312d4eaba259b720e6f79467', 0, '2026-11-30 13:36:10.564156', '2026-11-30 13:36:10.564156', NULL, NULL, 0, 0, '');
INSERT INTO jobs ("id", "type", "args", "result", "state", "reason", "reason_text", "reason_job_id", "parent_id", "container", "group_key", "weight", "priority", "key", "key_for", "key_slot", "lease_owner", "lease_expires", "in_flight", "heartbeat_at", "run_after", "attempt", "max_attempts", "first_max_attempts", "timeout", "memory", "uses", "spent", "on_failed", "given", "cancel_requested_at", "cancel_now", "unmet_deps", "closed_gates", "open_children", "done_children", "failed_children", "cancelled_children", "progress_done", "progress_total", "progress_note", "batch", "batch_no", "created_at", "updated_at", "started_at", "ended_at", "awaits_child", "not_needed_children", "uses_key") VALUES (9, 'asynchronous', '{"number":12}', NULL, 'cancelled', 'cancelled', 'cancelled by an operator', NULL, NULL, 0, 'default', 1, 0, NULL, 'open', NULL, NULL, NULL, 0, NULL, NULL, 0, 5, 5, 86400.0, NULL, NULL, NULL, NULL, NULL, '2026-11-30 13:36:10.658426', 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, '7ae0449eb2b8469eac93c3090bc16eb5', 0, '2026-11-30 13:36:10.655447', '2026-11-30 13:36:10.658426', NULL, '2026-11-30 13:36:10.658426', 0, 0, '');
INSERT INTO job_deps ("job_id", "depends_on_id", "kind", "position", "satisfied", "checked") VALUES (4, 1, 'ok', 0, 1, 1);
INSERT INTO job_deps ("job_id", "depends_on_id", "kind", "position", "satisfied", "checked") VALUES (5, 2, 'ok', 0, 0, 1);
INSERT INTO job_deps ("job_id", "depends_on_id", "kind", "position", "satisfied", "checked") VALUES (8, 3, 'ok', 0, 0, 0);
INSERT INTO job_attempts ("job_id", "attempt", "owner", "supervisor", "pid", "start_ticks", "claimed_at", "started_at", "ended_at", "cause", "error", "exit_code", "signal", "cpu_seconds", "max_rss_bytes", "stack_dump", "log_tail", "used", "spent", "devices") VALUES (1, 1, 'old/0123456789abcdef', 'old', 1, NULL, '2026-11-30 13:36:10.934754', '2026-11-30 13:36:10.934754', '2026-11-30 13:36:10.934754', 'done', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO job_attempts ("job_id", "attempt", "owner", "supervisor", "pid", "start_ticks", "claimed_at", "started_at", "ended_at", "cause", "error", "exit_code", "signal", "cpu_seconds", "max_rss_bytes", "stack_dump", "log_tail", "used", "spent", "devices") VALUES (2, 1, 'old/0123456789abcdef', 'old', 1, NULL, '2026-11-30 13:36:10.934754', '2026-11-30 13:36:10.934754', '2026-11-30 13:36:10.934754', 'fail', 'no use; 100 %', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO job_attempts ("job_id", "attempt", "owner", "supervisor", "pid", "start_ticks", "claimed_at", "started_at", "ended_at", "cause", "error", "exit_code", "signal", "cpu_seconds", "max_rss_bytes", "stack_dump", "log_tail", "used", "spent", "devices") VALUES (3, 1, 'old/0123456789abcdef', 'old', 1, NULL, '2026-11-30 13:36:10.934754', '2026-11-30 13:36:10.934754', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
