CREATE TABLE job_schema_version (
    version_num VARCHAR(32) NOT NULL, 
    CONSTRAINT job_schema_version_pkc PRIMARY KEY (version_num)
);

-- Running upgrade  -> 0001

CREATE TABLE IF NOT EXISTS jobs (
    id BIGINT NOT NULL AUTO_INCREMENT, 
    type VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, 
    args MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin, 
    result MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin, 
    state VARCHAR(12) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, 
    reason VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin, 
    reason_text MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin, 
    reason_job_id BIGINT, 
    parent_id BIGINT, 
    container BOOL NOT NULL, 
    group_key VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, 
    weight INTEGER NOT NULL, 
    priority INTEGER NOT NULL, 
    `key` VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin, 
    key_for VARCHAR(8) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, 
    key_slot VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin, 
    lease_owner VARCHAR(240) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin, 
    lease_expires DATETIME(6), 
    in_flight BOOL NOT NULL, 
    heartbeat_at DATETIME(6), 
    run_after DATETIME(6), 
    attempt INTEGER NOT NULL, 
    max_attempts INTEGER NOT NULL, 
    first_max_attempts INTEGER NOT NULL, 
    timeout DOUBLE NOT NULL, 
    memory BIGINT, 
    uses MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin, 
    spent MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin, 
    on_failed VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin, 
    given MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin, 
    cancel_requested_at DATETIME(6), 
    cancel_now BOOL NOT NULL, 
    unmet_deps INTEGER NOT NULL, 
    closed_gates INTEGER NOT NULL, 
    open_children INTEGER NOT NULL, 
    done_children INTEGER NOT NULL, 
    failed_children INTEGER NOT NULL, 
    cancelled_children INTEGER NOT NULL, 
    progress_done DOUBLE, 
    progress_total DOUBLE, 
    progress_note MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin, 
    batch VARCHAR(32) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin, 
    batch_no INTEGER, 
    created_at DATETIME(6) NOT NULL, 
    updated_at DATETIME(6) NOT NULL, 
    started_at DATETIME(6), 
    ended_at DATETIME(6), 
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
)DEFAULT CHARSET=utf8mb4 ENGINE=InnoDB;

CREATE INDEX jobs_due ON jobs (state, run_after);

CREATE INDEX jobs_in_flight ON jobs (in_flight, lease_expires);

CREATE UNIQUE INDEX jobs_key ON jobs (type, key_slot);

CREATE INDEX jobs_lease ON jobs (lease_owner);

CREATE INDEX jobs_parent ON jobs (parent_id, state);

CREATE INDEX jobs_ready ON jobs (state, group_key, priority, created_at, id, type, weight);

CREATE TABLE IF NOT EXISTS job_deps (
    job_id BIGINT NOT NULL, 
    depends_on_id BIGINT NOT NULL, 
    kind VARCHAR(8) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, 
    `position` INTEGER NOT NULL, 
    satisfied BOOL NOT NULL, 
    checked BOOL NOT NULL, 
    PRIMARY KEY (job_id, depends_on_id), 
    CONSTRAINT job_deps_kind CHECK (kind IN ('ok','any','not_ok')), 
    CONSTRAINT job_deps_self CHECK (job_id <> depends_on_id)
)ENGINE=InnoDB;

CREATE INDEX job_deps_unchecked ON job_deps (checked, depends_on_id);

CREATE INDEX job_deps_upstream ON job_deps (depends_on_id, satisfied);

CREATE TABLE IF NOT EXISTS job_attempts (
    job_id BIGINT NOT NULL, 
    attempt INTEGER NOT NULL, 
    owner VARCHAR(240) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, 
    supervisor VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, 
    pid INTEGER, 
    start_ticks BIGINT, 
    claimed_at DATETIME(6) NOT NULL, 
    started_at DATETIME(6), 
    ended_at DATETIME(6), 
    cause VARCHAR(12) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin, 
    error MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin, 
    exit_code INTEGER, 
    `signal` VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin, 
    cpu_seconds DOUBLE, 
    max_rss_bytes BIGINT, 
    stack_dump MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin, 
    log_tail MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin, 
    used MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin, 
    spent MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin, 
    PRIMARY KEY (job_id, attempt), 
    CONSTRAINT job_attempts_ended CHECK ((cause IS NULL) = (ended_at IS NULL))
)ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS job_supervisors (
    id VARCHAR(32) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, 
    name VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, 
    name_slot VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin, 
    host VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, 
    boot_id VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, 
    pid INTEGER NOT NULL, 
    start_ticks BIGINT NOT NULL, 
    state VARCHAR(12) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, 
    slots INTEGER NOT NULL, 
    types MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, 
    devices MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin, 
    wakeup VARCHAR(8) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, 
    started_at DATETIME(6) NOT NULL, 
    heartbeat_at DATETIME(6) NOT NULL, 
    ttl DOUBLE NOT NULL, 
    PRIMARY KEY (id), 
    UNIQUE (name_slot)
)ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS job_usage (
    supervisor_id VARCHAR(32) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, 
    group_key VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, 
    slot_seconds DOUBLE NOT NULL, 
    starts DOUBLE NOT NULL, 
    as_of DATETIME(6) NOT NULL, 
    PRIMARY KEY (supervisor_id, group_key)
)ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS job_groups (
    group_key VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, 
    weight INTEGER NOT NULL, 
    PRIMARY KEY (group_key)
)ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS job_limits (
    name VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, 
    group_key VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, 
    kind VARCHAR(12) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, 
    amount NUMERIC(24, 6) NOT NULL, 
    per VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin, 
    each_group BOOL NOT NULL, 
    PRIMARY KEY (name, group_key), 
    CONSTRAINT job_limits_kind CHECK (kind IN ('resource','rate','budget'))
)ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS job_holds (
    kind VARCHAR(12) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, 
    name VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, 
    reason MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin, 
    since DATETIME(6) NOT NULL, 
    until DATETIME(6), 
    PRIMARY KEY (kind, name)
)ENGINE=InnoDB;

INSERT INTO job_schema_version (version_num) VALUES ('0001') RETURNING job_schema_version.version_num;

-- Running upgrade 0001 -> 0002

ALTER TABLE job_supervisors ADD COLUMN drain_requested_at DATETIME(6);

ALTER TABLE job_supervisors ADD COLUMN heartbeat DOUBLE;

UPDATE job_schema_version SET version_num='0002' WHERE job_schema_version.version_num = '0001';

-- Running upgrade 0002 -> 0003

ALTER TABLE jobs ADD COLUMN awaits_child BOOL NOT NULL DEFAULT '0';

ALTER TABLE jobs ADD COLUMN not_needed_children INTEGER NOT NULL DEFAULT 0;

CREATE TABLE job_intents (
    id BIGINT NOT NULL AUTO_INCREMENT, 
    kind VARCHAR(8) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, 
    job_id BIGINT NOT NULL, 
    after_id BIGINT NOT NULL, 
    PRIMARY KEY (id), 
    CONSTRAINT job_intents_kind CHECK (kind IN ('edges','members','child','recheck'))
)ENGINE=InnoDB;

CREATE INDEX job_intents_job ON job_intents (job_id, kind);

UPDATE job_schema_version SET version_num='0003' WHERE job_schema_version.version_num = '0002';

-- Running upgrade 0003 -> 0004

ALTER TABLE jobs ADD COLUMN uses_key VARCHAR(16) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL DEFAULT '';

ALTER TABLE job_attempts ADD COLUMN devices MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

ALTER TABLE job_supervisors ADD COLUMN type_uses MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

ALTER TABLE job_supervisors ADD COLUMN only_groups MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

CREATE TABLE job_counters (
    name VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, 
    group_key VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, 
    `period` VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, 
    used NUMERIC(24, 6) NOT NULL, 
    PRIMARY KEY (name, group_key, `period`)
)ENGINE=InnoDB;

CREATE TABLE job_charges (
    id BIGINT NOT NULL AUTO_INCREMENT, 
    name VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, 
    group_key VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, 
    job_id BIGINT NOT NULL, 
    attempt INTEGER NOT NULL, 
    kind VARCHAR(12) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, 
    `period` VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, 
    counted_at DATETIME(6) NOT NULL, 
    amount NUMERIC(24, 6) NOT NULL, 
    estimate BOOL NOT NULL, 
    PRIMARY KEY (id), 
    CONSTRAINT job_charges_kind CHECK (kind IN ('resource','rate','budget'))
)ENGINE=InnoDB;

CREATE INDEX job_charges_job ON job_charges (job_id, attempt);

CREATE INDEX job_charges_limit ON job_charges (name, group_key, counted_at);

DROP INDEX jobs_ready ON jobs;

CREATE INDEX jobs_ready ON jobs (state, group_key, type, uses_key, priority, created_at, id, weight);

UPDATE job_schema_version SET version_num='0004' WHERE job_schema_version.version_num = '0003';


INSERT INTO jobs (`id`, `type`, `args`, `result`, `state`, `reason`, `reason_text`, `reason_job_id`, `parent_id`, `container`, `group_key`, `weight`, `priority`, `key`, `key_for`, `key_slot`, `lease_owner`, `lease_expires`, `in_flight`, `heartbeat_at`, `run_after`, `attempt`, `max_attempts`, `first_max_attempts`, `timeout`, `memory`, `uses`, `spent`, `on_failed`, `given`, `cancel_requested_at`, `cancel_now`, `unmet_deps`, `closed_gates`, `open_children`, `done_children`, `failed_children`, `cancelled_children`, `progress_done`, `progress_total`, `progress_note`, `batch`, `batch_no`, `created_at`, `updated_at`, `started_at`, `ended_at`, `awaits_child`, `not_needed_children`, `uses_key`) VALUES (1, 'asynchronous', '{"number":1180591620717411303424}', '{"b":1,"a":"ü\\\\"}', 'done', NULL, NULL, NULL, NULL, 0, 'Äé😀', 3, -5, 'order-1', 'open', NULL, NULL, NULL, 0, NULL, NULL, 1, 5, 5, 86400.0, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 'd5fe3024e5674a2fa3348780bfe9f1de', 0, '2026-11-30 13:37:00.097610', '2026-11-30 13:37:00.511787', '2026-11-30 13:37:00.511787', '2026-11-30 13:37:00.511787', 0, 0, '');
INSERT INTO jobs (`id`, `type`, `args`, `result`, `state`, `reason`, `reason_text`, `reason_job_id`, `parent_id`, `container`, `group_key`, `weight`, `priority`, `key`, `key_for`, `key_slot`, `lease_owner`, `lease_expires`, `in_flight`, `heartbeat_at`, `run_after`, `attempt`, `max_attempts`, `first_max_attempts`, `timeout`, `memory`, `uses`, `spent`, `on_failed`, `given`, `cancel_requested_at`, `cancel_now`, `unmet_deps`, `closed_gates`, `open_children`, `done_children`, `failed_children`, `cancelled_children`, `progress_done`, `progress_total`, `progress_note`, `batch`, `batch_no`, `created_at`, `updated_at`, `started_at`, `ended_at`, `awaits_child`, `not_needed_children`, `uses_key`) VALUES (2, 'ends', '{"how":"fail"}', NULL, 'failed', 'fail', 'no use; 100 %', NULL, NULL, 0, 'default', 1, 0, NULL, 'open', NULL, NULL, NULL, 0, NULL, NULL, 1, 5, 5, 86400.0, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 'd5fe3024e5674a2fa3348780bfe9f1de', 1, '2026-11-30 13:37:00.097610', '2026-11-30 13:37:00.511787', '2026-11-30 13:37:00.511787', '2026-11-30 13:37:00.511787', 0, 0, '');
INSERT INTO jobs (`id`, `type`, `args`, `result`, `state`, `reason`, `reason_text`, `reason_job_id`, `parent_id`, `container`, `group_key`, `weight`, `priority`, `key`, `key_for`, `key_slot`, `lease_owner`, `lease_expires`, `in_flight`, `heartbeat_at`, `run_after`, `attempt`, `max_attempts`, `first_max_attempts`, `timeout`, `memory`, `uses`, `spent`, `on_failed`, `given`, `cancel_requested_at`, `cancel_now`, `unmet_deps`, `closed_gates`, `open_children`, `done_children`, `failed_children`, `cancelled_children`, `progress_done`, `progress_total`, `progress_note`, `batch`, `batch_no`, `created_at`, `updated_at`, `started_at`, `ended_at`, `awaits_child`, `not_needed_children`, `uses_key`) VALUES (3, 'asynchronous', '{"number":1}', NULL, 'running', NULL, NULL, NULL, NULL, 0, 'default', 1, 0, NULL, 'open', NULL, 'old/0123456789abcdef', '2026-11-30 13:37:00.512787', 1, '2026-11-30 13:37:00.511787', NULL, 1, 5, 5, 86400.0, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 'd5fe3024e5674a2fa3348780bfe9f1de', 2, '2026-11-30 13:37:00.097610', '2026-11-30 13:37:00.511787', '2026-11-30 13:37:00.511787', NULL, 0, 0, '');
INSERT INTO jobs (`id`, `type`, `args`, `result`, `state`, `reason`, `reason_text`, `reason_job_id`, `parent_id`, `container`, `group_key`, `weight`, `priority`, `key`, `key_for`, `key_slot`, `lease_owner`, `lease_expires`, `in_flight`, `heartbeat_at`, `run_after`, `attempt`, `max_attempts`, `first_max_attempts`, `timeout`, `memory`, `uses`, `spent`, `on_failed`, `given`, `cancel_requested_at`, `cancel_now`, `unmet_deps`, `closed_gates`, `open_children`, `done_children`, `failed_children`, `cancelled_children`, `progress_done`, `progress_total`, `progress_note`, `batch`, `batch_no`, `created_at`, `updated_at`, `started_at`, `ended_at`, `awaits_child`, `not_needed_children`, `uses_key`) VALUES (4, 'asynchronous', '{"number":7}', NULL, 'ready', NULL, NULL, NULL, NULL, 0, 'default', 1, 0, NULL, 'open', NULL, NULL, NULL, 0, NULL, NULL, 0, 5, 5, 86400.0, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 'd5fe3024e5674a2fa3348780bfe9f1de', 3, '2026-11-30 13:37:00.097610', '2026-11-30 13:37:00.511787', NULL, NULL, 0, 0, '');
INSERT INTO jobs (`id`, `type`, `args`, `result`, `state`, `reason`, `reason_text`, `reason_job_id`, `parent_id`, `container`, `group_key`, `weight`, `priority`, `key`, `key_for`, `key_slot`, `lease_owner`, `lease_expires`, `in_flight`, `heartbeat_at`, `run_after`, `attempt`, `max_attempts`, `first_max_attempts`, `timeout`, `memory`, `uses`, `spent`, `on_failed`, `given`, `cancel_requested_at`, `cancel_now`, `unmet_deps`, `closed_gates`, `open_children`, `done_children`, `failed_children`, `cancelled_children`, `progress_done`, `progress_total`, `progress_note`, `batch`, `batch_no`, `created_at`, `updated_at`, `started_at`, `ended_at`, `awaits_child`, `not_needed_children`, `uses_key`) VALUES (5, 'asynchronous', '{"number":8}', NULL, 'cancelled', 'dependency', 'job 2 did not end well', 2, NULL, 0, 'default', 1, 0, NULL, 'open', NULL, NULL, NULL, 0, NULL, NULL, 0, 5, 5, 86400.0, NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, 'd5fe3024e5674a2fa3348780bfe9f1de', 4, '2026-11-30 13:37:00.097610', '2026-11-30 13:37:00.511787', NULL, '2026-11-30 13:37:00.511787', 0, 0, '');
INSERT INTO jobs (`id`, `type`, `args`, `result`, `state`, `reason`, `reason_text`, `reason_job_id`, `parent_id`, `container`, `group_key`, `weight`, `priority`, `key`, `key_for`, `key_slot`, `lease_owner`, `lease_expires`, `in_flight`, `heartbeat_at`, `run_after`, `attempt`, `max_attempts`, `first_max_attempts`, `timeout`, `memory`, `uses`, `spent`, `on_failed`, `given`, `cancel_requested_at`, `cancel_now`, `unmet_deps`, `closed_gates`, `open_children`, `done_children`, `failed_children`, `cancelled_children`, `progress_done`, `progress_total`, `progress_note`, `batch`, `batch_no`, `created_at`, `updated_at`, `started_at`, `ended_at`, `awaits_child`, `not_needed_children`, `uses_key`) VALUES (6, 'asynchronous', '{"number":9}', NULL, 'scheduled', NULL, NULL, NULL, NULL, 0, 'default', 1, 0, NULL, 'open', NULL, NULL, NULL, 0, NULL, '2027-09-26 13:37:00.097610', 0, 5, 5, 86400.0, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 'd5fe3024e5674a2fa3348780bfe9f1de', 5, '2026-11-30 13:37:00.097610', '2026-11-30 13:37:00.097610', NULL, NULL, 0, 0, '');
INSERT INTO jobs (`id`, `type`, `args`, `result`, `state`, `reason`, `reason_text`, `reason_job_id`, `parent_id`, `container`, `group_key`, `weight`, `priority`, `key`, `key_for`, `key_slot`, `lease_owner`, `lease_expires`, `in_flight`, `heartbeat_at`, `run_after`, `attempt`, `max_attempts`, `first_max_attempts`, `timeout`, `memory`, `uses`, `spent`, `on_failed`, `given`, `cancel_requested_at`, `cancel_now`, `unmet_deps`, `closed_gates`, `open_children`, `done_children`, `failed_children`, `cancelled_children`, `progress_done`, `progress_total`, `progress_note`, `batch`, `batch_no`, `created_at`, `updated_at`, `started_at`, `ended_at`, `awaits_child`, `not_needed_children`, `uses_key`) VALUES (7, 'asynchronous', '{"number":10}', NULL, 'ready', NULL, NULL, NULL, NULL, 0, 'default', 1, 0, 'it''s a \\ ''key''', 'ever', 'it''s a \\ ''key''', NULL, NULL, 0, NULL, NULL, 0, 5, 5, 86400.0, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 'd5fe3024e5674a2fa3348780bfe9f1de', 6, '2026-11-30 13:37:00.097610', '2026-11-30 13:37:00.097610', NULL, NULL, 0, 0, '');
INSERT INTO jobs (`id`, `type`, `args`, `result`, `state`, `reason`, `reason_text`, `reason_job_id`, `parent_id`, `container`, `group_key`, `weight`, `priority`, `key`, `key_for`, `key_slot`, `lease_owner`, `lease_expires`, `in_flight`, `heartbeat_at`, `run_after`, `attempt`, `max_attempts`, `first_max_attempts`, `timeout`, `memory`, `uses`, `spent`, `on_failed`, `given`, `cancel_requested_at`, `cancel_now`, `unmet_deps`, `closed_gates`, `open_children`, `done_children`, `failed_children`, `cancelled_children`, `progress_done`, `progress_total`, `progress_note`, `batch`, `batch_no`, `created_at`, `updated_at`, `started_at`, `ended_at`, `awaits_child`, `not_needed_children`, `uses_key`) VALUES (8, 'asynchronous', '{"number":11}', NULL, 'blocked', NULL, NULL, NULL, NULL, 0, 'default', 1, 0, NULL, 'open', NULL, NULL, NULL, 0, NULL, NULL, 0, 5, 5, 86400.0, NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, 'aa922c67e91a4bea9b87345c4c6edcaa', 0, '2026-11-30 13:37:00.171294', '2026-11-30 13:37:00.171294', NULL, NULL, 0, 0, '');
INSERT INTO jobs (`id`, `type`, `args`, `result`, `state`, `reason`, `reason_text`, `reason_job_id`, `parent_id`, `container`, `group_key`, `weight`, `priority`, `key`, `key_for`, `key_slot`, `lease_owner`, `lease_expires`, `in_flight`, `heartbeat_at`, `run_after`, `attempt`, `max_attempts`, `first_max_attempts`, `timeout`, `memory`, `uses`, `spent`, `on_failed`, `given`, `cancel_requested_at`, `cancel_now`, `unmet_deps`, `closed_gates`, `open_children`, `done_children`, `failed_children`, `cancelled_children`, `progress_done`, `progress_total`, `progress_note`, `batch`, `batch_no`, `created_at`, `updated_at`, `started_at`, `ended_at`, `awaits_child`, `not_needed_children`, `uses_key`) VALUES (9, 'asynchronous', '{"number":12}', NULL, 'cancelled', 'cancelled', 'cancelled by an operator', NULL, NULL, 0, 'default', 1, 0, NULL, 'open', NULL, NULL, NULL, 0, NULL, NULL, 0, 5, 5, 86400.0, NULL, NULL, NULL, NULL, NULL, '2026-11-30 13:37:00.424457', 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 'bdf41e658387457e9aafce3f8228c1ae', 0, '2026-11-30 13:37:00.390687', '2026-11-30 13:37:00.424457', NULL, '2026-11-30 13:37:00.424457', 0, 0, '');
INSERT INTO job_deps (`job_id`, `depends_on_id`, `kind`, `position`, `satisfied`, `checked`) VALUES (4, 1, 'ok', 0, 1, 1);
INSERT INTO job_deps (`job_id`, `depends_on_id`, `kind`, `position`, `satisfied`, `checked`) VALUES (5, 2, 'ok', 0, 0, 1);
INSERT INTO job_deps (`job_id`, `depends_on_id`, `kind`, `position`, `satisfied`, `checked`) VALUES (8, 3, 'ok', 0, 0, 0);
INSERT INTO job_attempts (`job_id`, `attempt`, `owner`, `supervisor`, `pid`, `start_ticks`, `claimed_at`, `started_at`, `ended_at`, `cause`, `error`, `exit_code`, `signal`, `cpu_seconds`, `max_rss_bytes`, `stack_dump`, `log_tail`, `used`, `spent`, `devices`) VALUES (1, 1, 'old/0123456789abcdef', 'old', 1, NULL, '2026-11-30 13:37:00.511787', '2026-11-30 13:37:00.511787', '2026-11-30 13:37:00.511787', 'done', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO job_attempts (`job_id`, `attempt`, `owner`, `supervisor`, `pid`, `start_ticks`, `claimed_at`, `started_at`, `ended_at`, `cause`, `error`, `exit_code`, `signal`, `cpu_seconds`, `max_rss_bytes`, `stack_dump`, `log_tail`, `used`, `spent`, `devices`) VALUES (2, 1, 'old/0123456789abcdef', 'old', 1, NULL, '2026-11-30 13:37:00.511787', '2026-11-30 13:37:00.511787', '2026-11-30 13:37:00.511787', 'fail', 'no use; 100 %', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO job_attempts (`job_id`, `attempt`, `owner`, `supervisor`, `pid`, `start_ticks`, `claimed_at`, `started_at`, `ended_at`, `cause`, `error`, `exit_code`, `signal`, `cpu_seconds`, `max_rss_bytes`, `stack_dump`, `log_tail`, `used`, `spent`, `devices`) VALUES (3, 1, 'old/0123456789abcdef', 'old', 1, NULL, '2026-11-30 13:37:00.511787', '2026-11-30 13:37:00.511787', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
