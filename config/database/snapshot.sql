-- Written by `python -m harness.snapshot`. {"postgres": 18, "digest": "c4435ea31c3ed3e813efafefe7673eadaa9818df25072c9751c4dc484d0d53c7", "migrations": [["contenttypes", "0001_initial"], ["auth", "0001_initial"], ["admin", "0001_initial"], ["admin", "0002_logentry_remove_auto_add"], ["admin", "0003_logentry_add_action_flag_choices"], ["contenttypes", "0002_remove_content_type_name"], ["auth", "0002_alter_permission_name_max_length"], ["auth", "0003_alter_user_email_max_length"], ["auth", "0004_alter_user_username_opts"], ["auth", "0005_alter_user_last_login_null"], ["auth", "0006_require_contenttypes_0002"], ["auth", "0007_alter_validators_add_error_messages"], ["auth", "0008_alter_user_username_max_length"], ["auth", "0009_alter_user_last_name_max_length"], ["auth", "0010_alter_group_name_max_length"], ["auth", "0011_update_proxy_permissions"], ["auth", "0012_alter_user_first_name_max_length"], ["core", "0001_background_jobs"], ["core", "0002_leases_of_jobs"], ["core", "0003_rests_of_jobs"], ["engagement", "0001_initial"], ["engagement", "0002_storage"], ["engagement", "0003_score_sets"], ["engagement", "0004_may_manage_connections"], ["engagement", "0005_forgotten"], ["engagement", "0006_segments"], ["engagement", "0007_default_segments"], ["engagement", "0008_measures"], ["engagement", "0009_roles"], ["engagement", "0010_login_attempts"], ["engagement", "0011_event_by_receipt"], ["engagement", "0012_segment_indexes"], ["engagement", "0013_tallies"], ["engagement", "0014_new_members_are_viewers"], ["engagement", "0015_past_benchmarks"], ["engagement", "0016_reattribution_requests"], ["engagement", "0017_weights_from_0"], ["engagement", "0018_event_name_done_by"], ["engagement", "0019_score_set_formula"], ["engagement", "0020_names"], ["engagement", "0021_aliases"], ["engagement", "0022_search"], ["engagement", "0023_insight_numbers"], ["engagement", "0024_stored_orders"], ["engagement", "0025_subject_changes"], ["engagement", "0026_watches_stale"], ["engagement", "0027_invites"], ["engagement", "0028_saved_views"], ["engagement", "0029_login_preferences"], ["engagement", "0030_cached_insights"], ["engagement", "0031_formula_version"], ["engagement", "0032_trail"], ["engagement", "0033_sign_in"], ["engagement", "0034_product_limits"], ["engagement", "0035_request_counts"], ["engagement", "0036_trait_names"], ["engagement", "0037_stamps_without_scores"], ["engagement", "0038_subject_traces"], ["engagement", "0039_edited_rules"], ["engagement", "0040_moved_thresholds"], ["engagement", "0041_no_proxy_sign_on"], ["engagement", "0042_proven_addresses"], ["engagement", "0043_parted_ids"], ["engagement", "0044_roles_in_plain_words"], ["engagement", "0045_alarms"], ["engagement", "0046_habit_parts"], ["engagement", "0047_seats"], ["engagement", "0048_late_days"], ["engagement", "0049_complete_days"], ["engagement", "0050_settled_alarms"], ["engagement", "0051_half_life"], ["engagement", "0052_trait_history"], ["engagement", "0053_account_chances"], ["engagement", "0054_undecided_accounts"], ["engagement", "0055_alarms_by_day"], ["engagement", "0056_figures_stale"], ["engagement", "0057_features"], ["destinations", "0001_record_destinations"], ["destinations", "0002_salesforce"], ["django_celery_beat", "0001_initial"], ["django_celery_beat", "0002_auto_20161118_0346"], ["django_celery_beat", "0003_auto_20161209_0049"], ["django_celery_beat", "0004_auto_20170221_0000"], ["django_celery_beat", "0005_add_solarschedule_events_choices"], ["django_celery_beat", "0006_auto_20180322_0932"], ["django_celery_beat", "0007_auto_20180521_0826"], ["django_celery_beat", "0008_auto_20180914_1922"], ["django_celery_beat", "0006_auto_20180210_1226"], ["django_celery_beat", "0006_periodictask_priority"], ["django_celery_beat", "0009_periodictask_headers"], ["django_celery_beat", "0010_auto_20190429_0326"], ["django_celery_beat", "0011_auto_20190508_0153"], ["django_celery_beat", "0012_periodictask_expire_seconds"], ["django_celery_beat", "0013_auto_20200609_0727"], ["django_celery_beat", "0014_remove_clockedschedule_enabled"], ["django_celery_beat", "0015_edit_solarschedule_events_choices"], ["django_celery_beat", "0016_alter_crontabschedule_timezone"], ["django_celery_beat", "0017_alter_crontabschedule_month_of_year"], ["django_celery_beat", "0018_improve_crontab_helptext"], ["django_celery_beat", "0019_alter_periodictasks_options"], ["engagement", "0058_work"], ["engagement", "0059_checklist"], ["engagement", "0060_activation"], ["engagement", "0061_one_index_of_requests"], ["engagement", "0062_never_used"], ["engagement", "0063_event_keys"], ["engagement", "0064_kept_defaults"], ["exports", "0001_scheduled_exports"], ["exports", "0002_part_read_at"], ["exports", "0003_license_events"], ["exports", "0004_trends"], ["exports", "0005_sources"], ["exports", "0006_moves_and_usage"], ["exports", "0007_postgres"], ["exports", "0008_timelines_and_cohorts"], ["ingestion", "0001_initial"], ["ingestion", "0002_storage"], ["ingestion", "0003_forgotten"], ["ingestion", "0004_imported_file"], ["ingestion", "0005_unusable_messages"], ["ingestion", "0006_ingestion_log"], ["ingestion", "0007_request_ids"], ["ingestion", "0008_hour_counts"], ["ingestion", "0009_too_many_traits"], ["ingestion", "0010_claimed_batches"], ["ingestion", "0011_alias_reason"], ["ingestion", "0012_live_view_and_refused_requests"], ["ingestion", "0013_words_of_outcomes"], ["ingestion", "0014_key_expiry"], ["ingestion", "0015_rate_limits"], ["ingestion", "0016_words_of_trait_drops"], ["ingestion", "0017_traces"], ["ingestion", "0018_placeholders"], ["ingestion", "0019_forget_keys"], ["ingestion", "0020_left_out_lines"], ["marketplace", "0001_initial"], ["marketplace", "0002_pending_licenses"], ["marketplace", "0003_lists_in_use"], ["marketplace", "0004_names"], ["marketplace", "0005_recent_fingerprints"], ["marketplace", "0006_reports_and_unlisted_licenses"], ["marketplace", "0007_encrypted_user_name"], ["marketplace", "0008_token_expiry_and_staff_licenses"], ["marketplace", "0009_license_ledger"], ["marketplace", "0010_report_readings"], ["marketplace", "0011_ledger_indexes"], ["marketplace", "0012_license_event_order"], ["marketplace", "0013_metric_events"], ["notifications", "0001_initial"], ["notifications", "0002_outbox_by_subject"], ["notifications", "0003_credential_expiring"], ["notifications", "0004_texts"], ["notifications", "0005_traits_of_subscriptions"], ["notifications", "0006_whole_product"], ["notifications", "0007_license_events"], ["notifications", "0008_forecast_falling"], ["notifications", "0009_chances_low"], ["notifications", "0010_digests"], ["notifications", "0011_to_owner"], ["notifications", "0012_activation"], ["notifications", "0013_crm_failing"], ["notifications", "0014_hooks"], ["outcomes", "0001_license_outcomes"], ["outcomes", "0002_backtests"], ["outcomes", "0003_suggestions"], ["outcomes", "0004_foresight"], ["outcomes", "0005_chance_looks"], ["outcomes", "0006_totals_of_chances"], ["outcomes", "0007_earlier_seats"], ["readapi", "0001_initial"], ["readapi", "0002_usage"], ["readapi", "0003_token_rights"], ["readapi", "0004_read_token"], ["readapi", "0005_hooks"], ["sessions", "0001_initial"], ["trends", "0001_figures"], ["trends", "0002_usage"], ["trends", "0003_cohorts"], ["trends", "0004_changes"]]}
SET LOCAL statement_timeout = 0;
SET LOCAL lock_timeout = 0;
SET LOCAL idle_in_transaction_session_timeout = 0;
SET LOCAL transaction_timeout = 0;
SET LOCAL client_encoding = 'UTF8';
SET LOCAL standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', true);
SET LOCAL check_function_bodies = false;
SET LOCAL xmloption = content;
SET LOCAL client_min_messages = warning;
SET LOCAL row_security = off;
CREATE FUNCTION public.engagement_search_grams(seed bigint, text text) RETURNS bigint[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
        SELECT array(SELECT hashtextextended(substr(text, i, 3), seed)
                     FROM generate_series(1, length(text) - 2) AS i)
    $$;
CREATE FUNCTION public.engagement_trail_is_append_only() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
    BEGIN
        IF TG_OP = 'DELETE' AND current_setting('eds.trail_retention', true) = 'on'
           AND OLD.at < now() - interval '30 days' THEN
            RETURN OLD;
        END IF;
        RAISE EXCEPTION 'The trail is append-only.';
    END $$;
SET LOCAL default_tablespace = '';
SET LOCAL default_table_access_method = heap;
CREATE TABLE public.auth_group (
    id integer NOT NULL,
    name character varying(150) NOT NULL
);
ALTER TABLE public.auth_group ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_group_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.auth_group_permissions (
    id bigint NOT NULL,
    group_id integer NOT NULL,
    permission_id integer NOT NULL
);
ALTER TABLE public.auth_group_permissions ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_group_permissions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.auth_permission (
    id integer NOT NULL,
    name character varying(255) NOT NULL,
    content_type_id integer NOT NULL,
    codename character varying(100) NOT NULL
);
ALTER TABLE public.auth_permission ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_permission_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.auth_user (
    id integer NOT NULL,
    password character varying(128) NOT NULL,
    last_login timestamp with time zone,
    is_superuser boolean NOT NULL,
    username character varying(150) NOT NULL,
    first_name character varying(150) NOT NULL,
    last_name character varying(150) NOT NULL,
    email character varying(254) NOT NULL,
    is_staff boolean NOT NULL,
    is_active boolean NOT NULL,
    date_joined timestamp with time zone NOT NULL
);
CREATE TABLE public.auth_user_groups (
    id bigint NOT NULL,
    user_id integer NOT NULL,
    group_id integer NOT NULL
);
ALTER TABLE public.auth_user_groups ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_user_groups_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
ALTER TABLE public.auth_user ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_user_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.auth_user_user_permissions (
    id bigint NOT NULL,
    user_id integer NOT NULL,
    permission_id integer NOT NULL
);
ALTER TABLE public.auth_user_user_permissions ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_user_user_permissions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.core_job (
    id bigint NOT NULL,
    kind character varying(50) NOT NULL,
    key character varying(100) DEFAULT ''::character varying NOT NULL,
    due_at timestamp with time zone,
    is_paused boolean DEFAULT false NOT NULL,
    cursor jsonb,
    progress bigint DEFAULT 0 NOT NULL,
    total bigint,
    failures integer DEFAULT 0 NOT NULL,
    error character varying(500) DEFAULT ''::character varying NOT NULL,
    failed_at timestamp with time zone,
    steps bigint DEFAULT 0 NOT NULL,
    seconds double precision DEFAULT 0.0 NOT NULL,
    stepped_at timestamp with time zone,
    lease uuid,
    leased_until timestamp with time zone,
    unrested_seconds double precision DEFAULT 0.0 NOT NULL
);
ALTER TABLE public.core_job ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.core_job_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.destinations_recorddestination (
    id bigint NOT NULL,
    vendor character varying(20) NOT NULL,
    scope character varying(7) NOT NULL,
    key text NOT NULL,
    mode character varying(10) NOT NULL,
    id_field character varying(100) NOT NULL,
    match jsonb NOT NULL,
    mapping jsonb NOT NULL,
    fields jsonb NOT NULL,
    points double precision NOT NULL,
    "interval" smallint NOT NULL,
    quota_share smallint NOT NULL,
    clears_forgotten boolean NOT NULL,
    base_url character varying(300) NOT NULL,
    state character varying(10) NOT NULL,
    pause_reason text NOT NULL,
    cursor jsonb NOT NULL,
    next_run_at timestamp with time zone,
    compared_at timestamp with time zone,
    calls_on date,
    calls integer NOT NULL,
    daily_limit integer,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    product_id bigint NOT NULL,
    workspace_id bigint NOT NULL,
    client_id character varying(255) DEFAULT ''::character varying NOT NULL,
    host character varying(255) DEFAULT ''::character varying NOT NULL,
    CONSTRAINT destinations_recorddestination_calls_check CHECK ((calls >= 0)),
    CONSTRAINT destinations_recorddestination_daily_limit_check CHECK ((daily_limit >= 0)),
    CONSTRAINT destinations_recorddestination_interval_check CHECK (("interval" >= 0)),
    CONSTRAINT destinations_recorddestination_quota_share_check CHECK ((quota_share >= 0)),
    CONSTRAINT record_destination_state_known CHECK (((state)::text = ANY ((ARRAY['draft'::character varying, 'active'::character varying, 'paused'::character varying])::text[])))
);
ALTER TABLE public.destinations_recorddestination ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.destinations_recorddestination_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.destinations_recordlink (
    id bigint NOT NULL,
    subject_id bigint,
    external_id character varying(512) NOT NULL,
    remote_id character varying(100) NOT NULL,
    matched_by character varying(250) NOT NULL,
    tried jsonb NOT NULL,
    last_sent jsonb NOT NULL,
    sent_at timestamp with time zone,
    state character varying(10) NOT NULL,
    error text NOT NULL,
    run bigint NOT NULL,
    destination_id bigint NOT NULL,
    product_id bigint NOT NULL
);
ALTER TABLE public.destinations_recordlink ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.destinations_recordlink_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.destinations_recordrun (
    id bigint NOT NULL,
    kind character varying(10) NOT NULL,
    state character varying(10) NOT NULL,
    requested_by character varying(200) NOT NULL,
    requested_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    since jsonb,
    until jsonb,
    after bigint NOT NULL,
    updated integer NOT NULL,
    created integer NOT NULL,
    unchanged integer NOT NULL,
    skipped integer NOT NULL,
    ambiguous integer NOT NULL,
    rejected integer NOT NULL,
    calls integer NOT NULL,
    sample jsonb NOT NULL,
    error text NOT NULL,
    destination_id bigint NOT NULL,
    product_id bigint NOT NULL,
    CONSTRAINT destinations_recordrun_ambiguous_check CHECK ((ambiguous >= 0)),
    CONSTRAINT destinations_recordrun_calls_check CHECK ((calls >= 0)),
    CONSTRAINT destinations_recordrun_created_check CHECK ((created >= 0)),
    CONSTRAINT destinations_recordrun_rejected_check CHECK ((rejected >= 0)),
    CONSTRAINT destinations_recordrun_skipped_check CHECK ((skipped >= 0)),
    CONSTRAINT destinations_recordrun_unchanged_check CHECK ((unchanged >= 0)),
    CONSTRAINT destinations_recordrun_updated_check CHECK ((updated >= 0)),
    CONSTRAINT record_run_state_known CHECK (((state)::text = ANY ((ARRAY['waiting'::character varying, 'running'::character varying, 'done'::character varying, 'failed'::character varying, 'stopped'::character varying])::text[])))
);
ALTER TABLE public.destinations_recordrun ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.destinations_recordrun_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_admin_log (
    id integer NOT NULL,
    action_time timestamp with time zone NOT NULL,
    object_id text,
    object_repr character varying(200) NOT NULL,
    action_flag smallint NOT NULL,
    change_message text NOT NULL,
    content_type_id integer,
    user_id integer NOT NULL,
    CONSTRAINT django_admin_log_action_flag_check CHECK ((action_flag >= 0))
);
ALTER TABLE public.django_admin_log ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_admin_log_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_celery_beat_clockedschedule (
    id integer NOT NULL,
    clocked_time timestamp with time zone NOT NULL
);
ALTER TABLE public.django_celery_beat_clockedschedule ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_celery_beat_clockedschedule_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_celery_beat_crontabschedule (
    id integer NOT NULL,
    minute character varying(240) NOT NULL,
    hour character varying(96) NOT NULL,
    day_of_week character varying(64) NOT NULL,
    day_of_month character varying(124) NOT NULL,
    month_of_year character varying(64) NOT NULL,
    timezone character varying(63) NOT NULL
);
ALTER TABLE public.django_celery_beat_crontabschedule ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_celery_beat_crontabschedule_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_celery_beat_intervalschedule (
    id integer NOT NULL,
    every integer NOT NULL,
    period character varying(24) NOT NULL
);
ALTER TABLE public.django_celery_beat_intervalschedule ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_celery_beat_intervalschedule_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_celery_beat_periodictask (
    id integer NOT NULL,
    name character varying(200) NOT NULL,
    task character varying(200) NOT NULL,
    args text NOT NULL,
    kwargs text NOT NULL,
    queue character varying(200),
    exchange character varying(200),
    routing_key character varying(200),
    expires timestamp with time zone,
    enabled boolean NOT NULL,
    last_run_at timestamp with time zone,
    total_run_count integer NOT NULL,
    date_changed timestamp with time zone NOT NULL,
    description text NOT NULL,
    crontab_id integer,
    interval_id integer,
    solar_id integer,
    one_off boolean NOT NULL,
    start_time timestamp with time zone,
    priority integer,
    headers text NOT NULL,
    clocked_id integer,
    expire_seconds integer,
    CONSTRAINT django_celery_beat_periodictask_expire_seconds_check CHECK ((expire_seconds >= 0)),
    CONSTRAINT django_celery_beat_periodictask_priority_check CHECK ((priority >= 0)),
    CONSTRAINT django_celery_beat_periodictask_total_run_count_check CHECK ((total_run_count >= 0))
);
ALTER TABLE public.django_celery_beat_periodictask ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_celery_beat_periodictask_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_celery_beat_periodictasks (
    ident smallint NOT NULL,
    last_update timestamp with time zone NOT NULL
);
CREATE TABLE public.django_celery_beat_solarschedule (
    id integer NOT NULL,
    event character varying(24) NOT NULL,
    latitude numeric(9,6) NOT NULL,
    longitude numeric(9,6) NOT NULL
);
ALTER TABLE public.django_celery_beat_solarschedule ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_celery_beat_solarschedule_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_content_type (
    id integer NOT NULL,
    app_label character varying(100) NOT NULL,
    model character varying(100) NOT NULL
);
ALTER TABLE public.django_content_type ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_content_type_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_migrations (
    id bigint NOT NULL,
    app character varying(255) NOT NULL,
    name character varying(255) NOT NULL,
    applied timestamp with time zone NOT NULL
);
ALTER TABLE public.django_migrations ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_migrations_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_session (
    session_key character varying(40) NOT NULL,
    session_data text NOT NULL,
    expire_date timestamp with time zone NOT NULL
);
CREATE TABLE public.engagement_account (
    id bigint NOT NULL,
    external_id character varying(512) NOT NULL,
    traits jsonb NOT NULL,
    trait_stamps jsonb NOT NULL,
    is_identified boolean NOT NULL,
    first_seen_at timestamp with time zone NOT NULL,
    last_seen_at timestamp with time zone NOT NULL,
    product_id bigint NOT NULL,
    created_at timestamp with time zone
)
WITH (fillfactor='80');
ALTER TABLE public.engagement_account ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_account_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.engagement_accountchance (
    kind character varying(20) NOT NULL,
    license character varying(200) NOT NULL,
    began_on date NOT NULL,
    day date NOT NULL,
    chance double precision NOT NULL,
    low double precision NOT NULL,
    high double precision NOT NULL,
    outcomes integer NOT NULL,
    is_share boolean NOT NULL,
    version bigint,
    seats integer,
    cents bigint,
    evidence jsonb NOT NULL,
    looked_on date NOT NULL,
    account_id bigint NOT NULL,
    product_id bigint NOT NULL,
    workspace_id bigint NOT NULL
);
CREATE TABLE public.engagement_accountengagement (
    raw bigint NOT NULL,
    raw_yesterday bigint NOT NULL,
    raw_last_period bigint NOT NULL,
    event_count bigint NOT NULL,
    active_days smallint NOT NULL,
    name_count integer NOT NULL,
    last_active_at timestamp with time zone,
    active_users integer NOT NULL,
    total_users integer NOT NULL,
    account_id bigint NOT NULL,
    product_id bigint NOT NULL,
    score_set_id bigint NOT NULL,
    active_users_last_period integer DEFAULT 0 NOT NULL,
    name_count_last_period integer DEFAULT 0 NOT NULL,
    top_user_points bigint DEFAULT 0 NOT NULL,
    activity smallint,
    raw_yesterday_last_period bigint,
    settled_before date,
    CONSTRAINT engagement_accountengagement_active_days_check CHECK ((active_days >= 0))
);
CREATE TABLE public.engagement_accountnote (
    id bigint NOT NULL,
    author character varying(150) NOT NULL,
    text text NOT NULL,
    written_at timestamp with time zone NOT NULL,
    account_id bigint NOT NULL,
    product_id bigint NOT NULL
);
ALTER TABLE public.engagement_accountnote ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_accountnote_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.engagement_accountuse (
    first_day date NOT NULL,
    last_day date NOT NULL,
    account_id bigint NOT NULL,
    event_name_id bigint NOT NULL,
    product_id bigint NOT NULL
);
CREATE TABLE public.engagement_accountwork (
    owner character varying(150) NOT NULL,
    is_by_hand boolean NOT NULL,
    tags character varying(50)[] NOT NULL,
    account_id bigint NOT NULL,
    product_id bigint NOT NULL
);
CREATE TABLE public.engagement_activation (
    id bigint NOT NULL,
    scope character varying(7) NOT NULL,
    state character varying(8) NOT NULL,
    steps jsonb NOT NULL,
    audience jsonb NOT NULL,
    built_until bigint NOT NULL,
    built bigint NOT NULL,
    to_build bigint,
    is_stamped boolean NOT NULL,
    figures jsonb,
    counted_on date,
    are_stale boolean NOT NULL,
    requested_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    published_at timestamp with time zone,
    retired_at timestamp with time zone,
    product_id bigint NOT NULL,
    workspace_id bigint NOT NULL,
    CONSTRAINT activation_scope_known CHECK (((scope)::text = ANY ((ARRAY['user'::character varying, 'account'::character varying])::text[]))),
    CONSTRAINT activation_state_known CHECK (((state)::text = ANY ((ARRAY['building'::character varying, 'current'::character varying, 'retired'::character varying])::text[])))
);
ALTER TABLE public.engagement_activation ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_activation_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.engagement_activeday (
    day date NOT NULL,
    users integer NOT NULL,
    hour smallint NOT NULL,
    account_id bigint NOT NULL,
    product_id bigint NOT NULL,
    score_set_id bigint NOT NULL,
    late smallint DEFAULT 0 NOT NULL
);
CREATE TABLE public.engagement_alarm (
    signal character varying(8) NOT NULL,
    level smallint NOT NULL,
    since date NOT NULL,
    ended_on date,
    outcome character varying(9) NOT NULL,
    is_stopped boolean NOT NULL,
    is_replayed boolean NOT NULL,
    window_days smallint NOT NULL,
    observed integer NOT NULL,
    expected double precision NOT NULL,
    dispersion double precision NOT NULL,
    p double precision NOT NULL,
    baseline_from date,
    baseline_to date,
    weekly_rate double precision,
    burstiness double precision,
    latest jsonb NOT NULL,
    details jsonb NOT NULL,
    account_id bigint NOT NULL,
    product_id bigint NOT NULL,
    workspace_id bigint NOT NULL
);
CREATE TABLE public.engagement_alarmnight (
    id bigint NOT NULL,
    day date NOT NULL,
    user_days bigint NOT NULL,
    score_set_id bigint,
    accounts bigint,
    parameters jsonb,
    summary jsonb,
    is_replayed boolean NOT NULL,
    decided_at timestamp with time zone,
    workspace_id bigint NOT NULL
);
ALTER TABLE public.engagement_alarmnight ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_alarmnight_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.engagement_alarmwork (
    signal character varying(8) NOT NULL,
    since date NOT NULL,
    seen_on date NOT NULL,
    taken_by character varying(150) NOT NULL,
    snoozed_until date,
    result character varying(50) NOT NULL,
    closed_by character varying(150) NOT NULL,
    closed_at timestamp with time zone,
    account_id bigint NOT NULL,
    product_id bigint NOT NULL,
    workspace_id bigint NOT NULL
);
CREATE TABLE public.engagement_alias (
    id bigint NOT NULL,
    previous_id character varying(512) NOT NULL,
    new_id character varying(512) NOT NULL,
    occurred_at timestamp with time zone NOT NULL,
    arrival bigint NOT NULL,
    product_id bigint NOT NULL,
    user_id bigint NOT NULL
);
ALTER TABLE public.engagement_alias ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_alias_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE SEQUENCE public.engagement_arrival
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE public.engagement_changestamp (
    product_id bigint NOT NULL,
    stamp bigint NOT NULL
);
CREATE TABLE public.engagement_chore (
    name character varying(50) NOT NULL,
    day date
);
CREATE TABLE public.engagement_dailybenchmark (
    day date NOT NULL,
    users double precision,
    accounts double precision,
    score_set_id bigint NOT NULL
);
CREATE TABLE public.engagement_dailycount (
    account_id bigint NOT NULL,
    day date NOT NULL,
    count integer NOT NULL,
    last_at timestamp with time zone NOT NULL,
    event_name_id bigint NOT NULL,
    product_id bigint NOT NULL,
    user_id bigint NOT NULL
)
WITH (fillfactor='80');
CREATE TABLE public.engagement_editedrule (
    id bigint NOT NULL,
    kind smallint NOT NULL,
    stamped_until bigint NOT NULL,
    before jsonb,
    after jsonb,
    score_set_id bigint NOT NULL
);
ALTER TABLE public.engagement_editedrule ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_editedrule_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.engagement_event (
    product_id bigint NOT NULL,
    user_id bigint NOT NULL,
    occurred_at timestamp with time zone NOT NULL,
    arrival bigint NOT NULL,
    account_id bigint,
    event_name_id bigint NOT NULL,
    received_at timestamp with time zone NOT NULL,
    id_number bigint
)
PARTITION BY RANGE (occurred_at);
CREATE TABLE public.engagement_event_default (
    product_id bigint CONSTRAINT engagement_event_product_id_not_null NOT NULL,
    user_id bigint CONSTRAINT engagement_event_user_id_not_null NOT NULL,
    occurred_at timestamp with time zone CONSTRAINT engagement_event_occurred_at_not_null NOT NULL,
    arrival bigint CONSTRAINT engagement_event_arrival_not_null NOT NULL,
    account_id bigint,
    event_name_id bigint CONSTRAINT engagement_event_event_name_id_not_null NOT NULL,
    received_at timestamp with time zone CONSTRAINT engagement_event_received_at_not_null NOT NULL,
    id_number bigint
);
CREATE TABLE public.engagement_eventname (
    id bigint NOT NULL,
    name character varying(256) NOT NULL,
    product_id bigint NOT NULL,
    done_by bigint DEFAULT 0,
    feature_id bigint
);
ALTER TABLE public.engagement_eventname ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_eventname_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.engagement_eventweight (
    id bigint NOT NULL,
    weight smallint NOT NULL,
    event_name_id bigint NOT NULL,
    workspace_id bigint NOT NULL,
    CONSTRAINT engagement_eventweight_weight_check CHECK ((weight >= 0)),
    CONSTRAINT event_weight_0_to_10 CHECK (((weight >= 0) AND (weight <= 10)))
);
ALTER TABLE public.engagement_eventweight ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_eventweight_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.engagement_externalidentity (
    id bigint NOT NULL,
    issuer character varying(500) NOT NULL,
    subject character varying(255) NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    user_id integer NOT NULL
);
ALTER TABLE public.engagement_externalidentity ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_externalidentity_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.engagement_feature (
    id bigint NOT NULL,
    name character varying(100) NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    product_id bigint NOT NULL
);
ALTER TABLE public.engagement_feature ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_feature_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.engagement_forgottensubject (
    id bigint NOT NULL,
    scope character varying(7) NOT NULL,
    digest bytea NOT NULL,
    up_to bigint NOT NULL,
    is_suppressed boolean NOT NULL,
    row_id bigint,
    forgotten_at timestamp with time zone NOT NULL,
    product_id bigint NOT NULL,
    CONSTRAINT forgotten_scope_known CHECK (((scope)::text = ANY ((ARRAY['user'::character varying, 'account'::character varying])::text[])))
);
ALTER TABLE public.engagement_forgottensubject ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_forgottensubject_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.engagement_habitpart (
    id bigint NOT NULL,
    habits bytea NOT NULL,
    users bytea NOT NULL,
    user_ends jsonb NOT NULL,
    score_set_id bigint NOT NULL
);
ALTER TABLE public.engagement_habitpart ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_habitpart_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.engagement_invite (
    id bigint NOT NULL,
    role character varying(10) NOT NULL,
    email character varying(254) NOT NULL,
    digest bytea NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    used_at timestamp with time zone,
    revoked_at timestamp with time zone,
    created_by_id integer,
    login_id integer,
    product_id bigint,
    is_mailed boolean DEFAULT false NOT NULL,
    CONSTRAINT invite_role_known CHECK (((role)::text = ANY ((ARRAY['viewer'::character varying, 'manager'::character varying])::text[])))
);
ALTER TABLE public.engagement_invite ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_invite_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.engagement_joinrequest (
    id bigint NOT NULL,
    user_id bigint NOT NULL,
    product_id bigint NOT NULL
);
ALTER TABLE public.engagement_joinrequest ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_joinrequest_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.engagement_keptdefault (
    name character varying(50) NOT NULL,
    value integer NOT NULL
);
CREATE TABLE public.engagement_lateday (
    account_id bigint NOT NULL,
    day date NOT NULL,
    is_counted boolean NOT NULL,
    product_id bigint NOT NULL,
    score_set_id bigint NOT NULL
);
CREATE TABLE public.engagement_lateuse (
    account_id bigint NOT NULL,
    day date NOT NULL,
    product_id bigint NOT NULL
);
CREATE TABLE public.engagement_loginattempts (
    subject character varying(64) NOT NULL,
    failures integer NOT NULL,
    failed_at timestamp with time zone,
    succeeded_at timestamp with time zone,
    keep_until timestamp with time zone NOT NULL,
    CONSTRAINT engagement_loginattempts_failures_check CHECK ((failures >= 0))
);
CREATE TABLE public.engagement_loginpreferences (
    user_id integer NOT NULL,
    time_zone character varying(64) DEFAULT ''::character varying NOT NULL
);
CREATE TABLE public.engagement_loginsession (
    digest character varying(64) NOT NULL,
    method character varying(10) NOT NULL,
    address character varying(64) NOT NULL,
    agent character varying(300) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    last_used_at timestamp with time zone NOT NULL,
    user_id integer NOT NULL,
    CONSTRAINT session_method_known CHECK (((method)::text = ANY ((ARRAY['password'::character varying, 'provider'::character varying, 'proxy'::character varying])::text[])))
);
CREATE TABLE public.engagement_measure (
    name character varying(50) NOT NULL,
    runs bigint NOT NULL,
    units bigint NOT NULL,
    seconds double precision NOT NULL,
    last_at timestamp with time zone NOT NULL
);
CREATE TABLE public.engagement_membership (
    occurred_at timestamp with time zone NOT NULL,
    arrival bigint NOT NULL,
    account_id bigint NOT NULL,
    product_id bigint NOT NULL,
    user_id bigint NOT NULL,
    id_number bigint
);
CREATE TABLE public.engagement_movedthreshold (
    id bigint NOT NULL,
    kind smallint NOT NULL,
    stamped_until bigint NOT NULL,
    metric character varying(30) NOT NULL,
    low bigint NOT NULL,
    high bigint NOT NULL,
    score_set_id bigint NOT NULL
);
ALTER TABLE public.engagement_movedthreshold ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_movedthreshold_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.engagement_orderchunk (
    version bigint NOT NULL,
    number integer NOT NULL,
    ids bigint[] NOT NULL,
    product_id bigint NOT NULL,
    order_id bigint NOT NULL
);
ALTER TABLE ONLY public.engagement_orderchunk ALTER COLUMN ids SET STORAGE EXTERNAL;
CREATE TABLE public.engagement_partrequest (
    id bigint NOT NULL,
    user_id bigint NOT NULL,
    target_id bigint NOT NULL,
    numbers bigint[] NOT NULL,
    after_at timestamp with time zone,
    after_arrival bigint NOT NULL,
    moved bigint NOT NULL,
    total bigint NOT NULL,
    requested_at timestamp with time zone NOT NULL,
    product_id bigint NOT NULL
);
ALTER TABLE public.engagement_partrequest ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_partrequest_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.engagement_product (
    id bigint NOT NULL,
    name character varying(200) NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    deleted_rows bigint DEFAULT 0 NOT NULL,
    deletion_requested_at timestamp with time zone,
    has_site_users boolean DEFAULT false NOT NULL,
    licensed_for character varying(10) DEFAULT 'host'::character varying NOT NULL,
    history_traits jsonb DEFAULT '{}'::jsonb NOT NULL,
    work jsonb DEFAULT '{}'::jsonb NOT NULL,
    shows_checklist boolean DEFAULT false NOT NULL
);
ALTER TABLE public.engagement_product ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_product_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.engagement_productlimits (
    product_id bigint NOT NULL,
    messages_per_second bigint,
    messages_per_day bigint,
    event_names bigint,
    subjects bigint,
    segments bigint,
    trait_names bigint
);
CREATE TABLE public.engagement_productmember (
    id bigint NOT NULL,
    product_id bigint NOT NULL,
    user_id integer NOT NULL,
    may_manage_connections boolean DEFAULT false NOT NULL,
    role character varying(10) DEFAULT 'viewer'::character varying NOT NULL,
    may_work_on_accounts boolean DEFAULT false NOT NULL,
    CONSTRAINT member_role_known CHECK (((role)::text = ANY ((ARRAY['viewer'::character varying, 'manager'::character varying])::text[])))
);
ALTER TABLE public.engagement_productmember ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_productmember_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.engagement_productusage (
    product_id bigint NOT NULL,
    event_names bigint NOT NULL,
    subjects bigint NOT NULL,
    segments bigint NOT NULL,
    counted_at timestamp with time zone NOT NULL,
    trait_names bigint DEFAULT 0 NOT NULL
);
CREATE TABLE public.engagement_provenaddress (
    user_id integer NOT NULL,
    email character varying(254) NOT NULL
);
CREATE TABLE public.engagement_reattributionrequest (
    id bigint NOT NULL,
    user_id bigint NOT NULL,
    start_at timestamp with time zone,
    end_at timestamp with time zone,
    arrival bigint NOT NULL,
    product_id bigint NOT NULL
);
ALTER TABLE public.engagement_reattributionrequest ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_reattributionrequest_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.engagement_recoverycode (
    id bigint NOT NULL,
    digest character varying(64) NOT NULL,
    user_id integer NOT NULL
);
ALTER TABLE public.engagement_recoverycode ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_recoverycode_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.engagement_requestcount (
    endpoint character varying(100) NOT NULL,
    status smallint NOT NULL,
    code character varying(50) NOT NULL,
    bucket smallint NOT NULL,
    requests bigint NOT NULL,
    seconds double precision NOT NULL,
    CONSTRAINT engagement_requestcount_bucket_check CHECK ((bucket >= 0)),
    CONSTRAINT engagement_requestcount_status_check CHECK ((status >= 0))
);
CREATE TABLE public.engagement_rolegrant (
    id bigint NOT NULL,
    role character varying(10) NOT NULL,
    previous_role character varying(10) DEFAULT ''::character varying NOT NULL,
    product_id bigint,
    user_id integer NOT NULL
);
ALTER TABLE public.engagement_rolegrant ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_rolegrant_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.engagement_savedview (
    id bigint NOT NULL,
    scope character varying(7) NOT NULL,
    name character varying(100) NOT NULL,
    filters jsonb NOT NULL,
    sort character varying(530) NOT NULL,
    columns jsonb NOT NULL,
    is_default boolean NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    owner_id integer,
    product_id bigint NOT NULL,
    workspace_id bigint NOT NULL,
    CONSTRAINT saved_view_scope_known CHECK (((scope)::text = ANY ((ARRAY['user'::character varying, 'account'::character varying])::text[])))
);
ALTER TABLE public.engagement_savedview ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_savedview_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.engagement_scoredevent (
    weight smallint NOT NULL,
    event_name_id bigint NOT NULL,
    score_set_id bigint NOT NULL,
    CONSTRAINT engagement_scoredevent_weight_check CHECK ((weight >= 0))
);
CREATE TABLE public.engagement_scoreset (
    id bigint NOT NULL,
    state character varying(8) NOT NULL,
    lookback_days smallint NOT NULL,
    default_weight smallint NOT NULL,
    audience jsonb NOT NULL,
    phase character varying(10) NOT NULL,
    built_until bigint NOT NULL,
    built bigint NOT NULL,
    to_build bigint,
    scored_day date,
    user_benchmark double precision,
    user_benchmark_yesterday double precision,
    user_benchmark_last_period double precision,
    account_benchmark double precision,
    account_benchmark_yesterday double precision,
    account_benchmark_last_period double precision,
    user_quantiles bigint[] NOT NULL,
    account_quantiles bigint[] NOT NULL,
    scored_names integer NOT NULL,
    benchmarks_at timestamp with time zone,
    benchmarks_stale boolean NOT NULL,
    benchmark_seconds double precision NOT NULL,
    requested_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    published_at timestamp with time zone,
    retired_at timestamp with time zone,
    product_id bigint NOT NULL,
    workspace_id bigint NOT NULL,
    tally_stale boolean DEFAULT true NOT NULL,
    past_at timestamp with time zone,
    past_seconds double precision DEFAULT 0.0 NOT NULL,
    past_stale_from date,
    formula smallint DEFAULT 0 NOT NULL,
    watches_stale boolean DEFAULT true NOT NULL,
    active_days_until date,
    seats character varying(10) DEFAULT 'host'::character varying NOT NULL,
    account_benchmark_yesterday_last_period double precision,
    user_benchmark_yesterday_last_period double precision,
    reference_day date,
    half_life_days smallint,
    figures_stale_from date,
    CONSTRAINT engagement_scoreset_default_weight_check CHECK ((default_weight >= 0)),
    CONSTRAINT engagement_scoreset_formula_check CHECK ((formula >= 0)),
    CONSTRAINT engagement_scoreset_half_life_days_check CHECK ((half_life_days >= 0)),
    CONSTRAINT engagement_scoreset_lookback_days_check CHECK ((lookback_days >= 0)),
    CONSTRAINT score_set_state_known CHECK (((state)::text = ANY ((ARRAY['building'::character varying, 'current'::character varying, 'retired'::character varying])::text[])))
);
ALTER TABLE public.engagement_scoreset ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_scoreset_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.engagement_searchbacklog (
    kind smallint NOT NULL,
    indexed_until bigint NOT NULL,
    opened_at timestamp with time zone NOT NULL,
    product_id bigint NOT NULL
);
CREATE TABLE public.engagement_searchentry (
    kind smallint NOT NULL,
    subject_id bigint NOT NULL,
    text text NOT NULL,
    product_id bigint NOT NULL
);
CREATE TABLE public.engagement_secondfactor (
    id bigint NOT NULL,
    kind character varying(10) NOT NULL,
    name character varying(100) NOT NULL,
    secret text NOT NULL,
    last_used bigint DEFAULT 0 NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    last_used_at timestamp with time zone,
    user_id integer NOT NULL,
    CONSTRAINT second_factor_kind_known CHECK (((kind)::text = ANY ((ARRAY['app'::character varying, 'passkey'::character varying])::text[])))
);
ALTER TABLE public.engagement_secondfactor ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_secondfactor_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.engagement_segment (
    id bigint NOT NULL,
    scope character varying(7) NOT NULL,
    name character varying(100) NOT NULL,
    match character varying(3) NOT NULL,
    conditions jsonb NOT NULL,
    is_default boolean NOT NULL,
    "position" smallint NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    workspace_id bigint NOT NULL,
    CONSTRAINT engagement_segment_position_check CHECK (("position" >= 0)),
    CONSTRAINT segment_match_known CHECK (((match)::text = ANY ((ARRAY['all'::character varying, 'any'::character varying])::text[]))),
    CONSTRAINT segment_scope_known CHECK (((scope)::text = ANY ((ARRAY['user'::character varying, 'account'::character varying])::text[])))
);
ALTER TABLE public.engagement_segment ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_segment_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.engagement_stalemark (
    id bigint NOT NULL,
    user_id bigint,
    account_id bigint,
    product_id bigint NOT NULL,
    day date,
    account_change smallint
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='50000');
ALTER TABLE public.engagement_stalemark ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_stalemark_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.engagement_stepsdone (
    subject_id bigint NOT NULL,
    first_day date NOT NULL,
    days smallint[] NOT NULL,
    reached smallint NOT NULL,
    late_on date,
    activation_id bigint NOT NULL,
    product_id bigint NOT NULL
);
CREATE TABLE public.engagement_storedorder (
    id bigint NOT NULL,
    scope character varying(7) NOT NULL,
    "column" character varying(520) NOT NULL,
    version bigint NOT NULL,
    row_count bigint NOT NULL,
    present_count bigint NOT NULL,
    previous_row_count bigint NOT NULL,
    previous_present_count bigint NOT NULL,
    computed_at timestamp with time zone,
    seconds double precision NOT NULL,
    used_at timestamp with time zone,
    product_id bigint NOT NULL,
    score_set_id bigint NOT NULL
);
ALTER TABLE public.engagement_storedorder ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_storedorder_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.engagement_subjectchange (
    kind smallint NOT NULL,
    subject_id bigint NOT NULL,
    stamp bigint NOT NULL,
    product_id bigint NOT NULL
)
WITH (fillfactor='70');
CREATE TABLE public.engagement_subjecttrace (
    scope character varying(7) NOT NULL,
    subject_id bigint NOT NULL,
    traceparent character varying(55) NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    is_scored boolean NOT NULL,
    product_id bigint NOT NULL
);
CREATE TABLE public.engagement_tally (
    score_set_id bigint NOT NULL,
    users bigint NOT NULL,
    active_users bigint NOT NULL,
    accounts bigint NOT NULL,
    active_accounts bigint NOT NULL,
    members jsonb NOT NULL,
    rising bigint[] NOT NULL,
    falling bigint[] NOT NULL,
    taken_at timestamp with time zone NOT NULL,
    seconds double precision NOT NULL,
    costliest jsonb DEFAULT '{}'::jsonb NOT NULL,
    insights jsonb DEFAULT '{}'::jsonb NOT NULL,
    newest bigint[] DEFAULT '{}'::bigint[] NOT NULL
);
CREATE TABLE public.engagement_trailentry (
    id bigint NOT NULL,
    at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    person character varying(150) NOT NULL,
    address inet,
    action character varying(20) NOT NULL,
    kind character varying(40) NOT NULL,
    object_id character varying(40) NOT NULL,
    object_name character varying(300) NOT NULL,
    note text NOT NULL,
    changes jsonb NOT NULL,
    login_id integer,
    of_product bigint
);
ALTER TABLE public.engagement_trailentry ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_trailentry_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.engagement_traitchange (
    name character varying(256) NOT NULL,
    day date NOT NULL,
    value character varying(200) NOT NULL,
    at timestamp with time zone NOT NULL,
    previous character varying(200) NOT NULL,
    account_id bigint NOT NULL,
    product_id bigint NOT NULL
);
CREATE TABLE public.engagement_traitname (
    id bigint NOT NULL,
    name text NOT NULL,
    product_id bigint NOT NULL
);
ALTER TABLE public.engagement_traitname ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_traitname_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.engagement_turnedday (
    id bigint NOT NULL,
    kind smallint NOT NULL,
    before date NOT NULL,
    day date NOT NULL,
    stamped_until bigint NOT NULL,
    score_set_id bigint NOT NULL
);
ALTER TABLE public.engagement_turnedday ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_turnedday_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.engagement_usagestate (
    product_id bigint NOT NULL,
    uses_until date,
    figures_until date,
    counted_on date
);
CREATE TABLE public.engagement_user (
    id bigint NOT NULL,
    external_id character varying(512) NOT NULL,
    traits jsonb NOT NULL,
    trait_stamps jsonb NOT NULL,
    is_identified boolean NOT NULL,
    first_seen_at timestamp with time zone NOT NULL,
    last_seen_at timestamp with time zone NOT NULL,
    account_since timestamp with time zone,
    account_id bigint,
    product_id bigint NOT NULL,
    created_at timestamp with time zone,
    joined_to_id bigint,
    id_number bigint
)
WITH (fillfactor='80');
ALTER TABLE public.engagement_user ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_user_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.engagement_userengagement (
    raw bigint NOT NULL,
    raw_yesterday bigint NOT NULL,
    raw_last_period bigint NOT NULL,
    event_count bigint NOT NULL,
    active_days smallint NOT NULL,
    name_count integer NOT NULL,
    last_active_at timestamp with time zone,
    product_id bigint NOT NULL,
    score_set_id bigint NOT NULL,
    user_id bigint NOT NULL,
    raw_yesterday_last_period bigint,
    settled_before date,
    CONSTRAINT engagement_userengagement_active_days_check CHECK ((active_days >= 0))
);
CREATE TABLE public.engagement_workspace (
    id bigint NOT NULL,
    name character varying(200) NOT NULL,
    lookback_days smallint NOT NULL,
    default_weight smallint NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    product_id bigint NOT NULL,
    audience jsonb NOT NULL,
    scores_id bigint,
    alarm_level smallint DEFAULT 2 NOT NULL,
    half_life_days smallint,
    outcomes jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT engagement_workspace_alarm_level_check CHECK ((alarm_level >= 0)),
    CONSTRAINT engagement_workspace_default_weight_check CHECK ((default_weight >= 0)),
    CONSTRAINT engagement_workspace_half_life_days_check CHECK ((half_life_days >= 0)),
    CONSTRAINT engagement_workspace_lookback_days_check CHECK ((lookback_days >= 0)),
    CONSTRAINT workspace_default_weight_range CHECK (((default_weight >= 0) AND (default_weight <= 10))),
    CONSTRAINT workspace_half_life_allowed CHECK (((half_life_days IS NULL) OR (((half_life_days >= 7) AND (half_life_days <= 180)) AND (lookback_days = 30)))),
    CONSTRAINT workspace_lookback_allowed CHECK ((lookback_days = ANY (ARRAY[1, 7, 30])))
);
ALTER TABLE public.engagement_workspace ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.engagement_workspace_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.exports_exportfile (
    id bigint NOT NULL,
    "table" character varying(20) NOT NULL,
    name character varying(100) NOT NULL,
    rows bigint NOT NULL,
    bytes bigint NOT NULL,
    sha256 character varying(64) NOT NULL,
    product_id bigint NOT NULL,
    run_id bigint NOT NULL,
    read_at timestamp with time zone
);
ALTER TABLE public.exports_exportfile ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.exports_exportfile_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.exports_exportrun (
    id bigint NOT NULL,
    state character varying(10) NOT NULL,
    requested_by character varying(200) NOT NULL,
    requested_at timestamp with time zone NOT NULL,
    due_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    folder character varying(100) NOT NULL,
    complete_because text NOT NULL,
    since jsonb,
    until jsonb,
    table_number smallint NOT NULL,
    after bigint NOT NULL,
    part_number integer NOT NULL,
    rows bigint NOT NULL,
    bytes bigint NOT NULL,
    expected_rows bigint,
    failures integer NOT NULL,
    error text NOT NULL,
    lease uuid,
    leased_until timestamp with time zone,
    product_id bigint NOT NULL,
    export_id bigint NOT NULL,
    CONSTRAINT export_run_state_known CHECK (((state)::text = ANY ((ARRAY['waiting'::character varying, 'running'::character varying, 'done'::character varying, 'failed'::character varying, 'stopped'::character varying])::text[]))),
    CONSTRAINT exports_exportrun_failures_check CHECK ((failures >= 0)),
    CONSTRAINT exports_exportrun_part_number_check CHECK ((part_number >= 0)),
    CONSTRAINT exports_exportrun_table_number_check CHECK ((table_number >= 0))
);
ALTER TABLE public.exports_exportrun ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.exports_exportrun_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.exports_scheduledexport (
    id bigint NOT NULL,
    name character varying(100) NOT NULL,
    tables character varying(20)[] NOT NULL,
    format character varying(10) NOT NULL,
    extent character varying(10) NOT NULL,
    schedule character varying(10) NOT NULL,
    hour smallint NOT NULL,
    weekday smallint NOT NULL,
    is_enabled boolean NOT NULL,
    store_kind character varying(10) NOT NULL,
    endpoint character varying(500) NOT NULL,
    region character varying(50) NOT NULL,
    bucket character varying(100) NOT NULL,
    folder character varying(300) NOT NULL,
    access_key_id text NOT NULL,
    secret_access_key text NOT NULL,
    cursor jsonb NOT NULL,
    verified_at timestamp with time zone,
    next_run_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    product_id bigint NOT NULL,
    workspace_id bigint NOT NULL,
    segment_id bigint,
    view_id bigint,
    ca text DEFAULT ''::text NOT NULL,
    database character varying(63) DEFAULT ''::character varying NOT NULL,
    host character varying(253) DEFAULT ''::character varying NOT NULL,
    password text,
    port integer DEFAULT 5432 NOT NULL,
    schema character varying(63) DEFAULT 'eds'::character varying NOT NULL,
    tls character varying(12) DEFAULT 'verify-full'::character varying NOT NULL,
    user_name character varying(63) DEFAULT ''::character varying NOT NULL,
    CONSTRAINT export_extent_known CHECK (((extent)::text = ANY ((ARRAY['complete'::character varying, 'changes'::character varying])::text[]))),
    CONSTRAINT export_of_a_source_is_complete CHECK ((((extent)::text = 'complete'::text) OR ((segment_id IS NULL) AND (view_id IS NULL)))),
    CONSTRAINT export_of_one_source CHECK (((segment_id IS NULL) OR (view_id IS NULL))),
    CONSTRAINT export_schedule_known CHECK (((schedule)::text = ANY ((ARRAY['daily'::character varying, 'weekly'::character varying, 'manual'::character varying])::text[]))),
    CONSTRAINT export_store_known CHECK (((store_kind)::text = ANY ((ARRAY['s3'::character varying, 'folder'::character varying, 'postgres'::character varying])::text[]))),
    CONSTRAINT exports_scheduledexport_hour_check CHECK ((hour >= 0)),
    CONSTRAINT exports_scheduledexport_port_check CHECK ((port >= 0)),
    CONSTRAINT exports_scheduledexport_weekday_check CHECK ((weekday >= 0))
);
ALTER TABLE public.exports_scheduledexport ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.exports_scheduledexport_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.ingestion_claimedbatch (
    id bigint NOT NULL,
    message_ids bigint[] NOT NULL,
    attempts smallint NOT NULL,
    claimed_at timestamp with time zone,
    CONSTRAINT ingestion_claimedbatch_attempts_check CHECK ((attempts >= 0))
);
ALTER TABLE ONLY public.ingestion_claimedbatch ALTER COLUMN message_ids SET STORAGE EXTERNAL;
ALTER TABLE public.ingestion_claimedbatch ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.ingestion_claimedbatch_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.ingestion_dropcount (
    id bigint NOT NULL,
    day date NOT NULL,
    reason character varying(20) NOT NULL,
    count bigint NOT NULL,
    product_id bigint
);
ALTER TABLE public.ingestion_dropcount ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.ingestion_dropcount_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.ingestion_droppedmessage (
    id bigint NOT NULL,
    reason character varying(20) NOT NULL,
    key_hint character varying(9) NOT NULL,
    kind character varying(10) NOT NULL,
    user_external_id text NOT NULL,
    account_external_id text NOT NULL,
    event text NOT NULL,
    message_id text NOT NULL,
    received_at timestamp with time zone NOT NULL,
    dropped_at timestamp with time zone NOT NULL,
    product_id bigint,
    detail text DEFAULT ''::text NOT NULL,
    request_id character varying(64),
    CONSTRAINT dropped_reason_known CHECK (((reason)::text = ANY ((ARRAY['unknown_key'::character varying, 'revoked_key'::character varying, 'missing_key'::character varying, 'duplicate'::character varying, 'forgotten'::character varying, 'deleted_product'::character varying, 'anonymous'::character varying, 'alias'::character varying, 'too_many_traits'::character varying, 'unusable'::character varying, 'read_token'::character varying, 'expired_key'::character varying, 'too_fast'::character varying, 'daily_limit'::character varying, 'too_many_names'::character varying, 'too_many_subjects'::character varying, 'placeholder'::character varying])::text[])))
);
CREATE TABLE public.ingestion_forgetkey (
    id bigint NOT NULL,
    name character varying(100) NOT NULL,
    purpose character varying(200) DEFAULT ''::character varying NOT NULL,
    expires_at timestamp with time zone,
    secret text NOT NULL,
    digest bytea NOT NULL,
    hint character varying(9) NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    last_used_at timestamp with time zone,
    revoked_at timestamp with time zone,
    owner_id integer,
    product_id bigint NOT NULL
);
ALTER TABLE public.ingestion_forgetkey ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.ingestion_forgetkey_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.ingestion_hourcount (
    hour timestamp with time zone NOT NULL,
    reason character varying(20) NOT NULL,
    count bigint NOT NULL,
    product_id bigint NOT NULL
);
CREATE TABLE public.ingestion_importedfile (
    id bigint NOT NULL,
    digest bytea NOT NULL,
    name character varying(255) NOT NULL,
    "position" bigint NOT NULL,
    lines bigint NOT NULL,
    recorded bigint NOT NULL,
    repeated bigint NOT NULL,
    forgotten bigint NOT NULL,
    bad bigint NOT NULL,
    started_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone,
    product_id bigint NOT NULL,
    left_out bigint DEFAULT 0 NOT NULL
);
ALTER TABLE public.ingestion_importedfile ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.ingestion_importedfile_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.ingestion_inboxmessage (
    id bigint DEFAULT nextval('public.engagement_arrival'::regclass) NOT NULL,
    received_at timestamp with time zone NOT NULL,
    key_digest bytea NOT NULL,
    key_hint character varying(9) NOT NULL,
    payload bytea NOT NULL,
    attempts smallint DEFAULT 0 NOT NULL,
    not_before timestamp with time zone,
    request_id character varying(64),
    traceparent character varying(55),
    CONSTRAINT ingestion_inboxmessage_attempts_check CHECK ((attempts >= 0))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='20000', autovacuum_vacuum_insert_scale_factor='0', autovacuum_vacuum_insert_threshold='1000000', autovacuum_vacuum_cost_delay='0', vacuum_index_cleanup='on');
CREATE TABLE public.ingestion_ingestionkey (
    id bigint NOT NULL,
    name character varying(100) NOT NULL,
    secret text NOT NULL,
    digest bytea NOT NULL,
    hint character varying(9) NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    last_used_at timestamp with time zone,
    revoked_at timestamp with time zone,
    product_id bigint NOT NULL,
    expires_at timestamp with time zone,
    owner_id integer,
    purpose character varying(200) DEFAULT ''::character varying NOT NULL
);
ALTER TABLE public.ingestion_ingestionkey ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.ingestion_ingestionkey_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE UNLOGGED TABLE public.ingestion_minutecount (
    minute timestamp with time zone NOT NULL,
    count bigint NOT NULL,
    product_id bigint NOT NULL
);
CREATE TABLE public.ingestion_quarantinedmessage (
    id bigint NOT NULL,
    received_at timestamp with time zone NOT NULL,
    key_digest bytea NOT NULL,
    key_hint character varying(9) NOT NULL,
    payload bytea NOT NULL,
    attempts smallint NOT NULL,
    error text NOT NULL,
    quarantined_at timestamp with time zone NOT NULL,
    product_id bigint,
    request_id character varying(64),
    traceparent character varying(55),
    CONSTRAINT ingestion_quarantinedmessage_attempts_check CHECK ((attempts >= 0))
);
CREATE TABLE public.ingestion_recentmessage (
    kind character varying(10) NOT NULL,
    slot smallint NOT NULL,
    arrival bigint NOT NULL,
    received_at timestamp with time zone NOT NULL,
    "timestamp" timestamp with time zone NOT NULL,
    user_external_id text NOT NULL,
    previous_external_id text NOT NULL,
    account_external_id text NOT NULL,
    event text NOT NULL,
    message_id text NOT NULL,
    detail text NOT NULL,
    product_id bigint NOT NULL
);
CREATE TABLE public.ingestion_refusedcount (
    hour timestamp with time zone NOT NULL,
    code character varying(40) NOT NULL,
    count bigint NOT NULL,
    product_id bigint NOT NULL
);
CREATE TABLE public.ingestion_refusedrequest (
    id bigint NOT NULL,
    received_at timestamp with time zone NOT NULL,
    endpoint character varying(60) NOT NULL,
    kind character varying(10) NOT NULL,
    status smallint NOT NULL,
    code character varying(40) NOT NULL,
    message text NOT NULL,
    field character varying(60) NOT NULL,
    key_hint character varying(9) NOT NULL,
    user_agent character varying(100) NOT NULL,
    product_id bigint NOT NULL,
    CONSTRAINT ingestion_refusedrequest_status_check CHECK ((status >= 0))
);
ALTER TABLE public.ingestion_refusedrequest ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.ingestion_refusedrequest_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.ingestion_seenmessageid (
    message_id character varying(100) NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    product_id bigint NOT NULL
);
CREATE TABLE public.marketplace_connection (
    id bigint NOT NULL,
    state character varying(30) NOT NULL,
    state_reason text NOT NULL,
    state_changed_at timestamp with time zone NOT NULL,
    generation integer NOT NULL,
    user_name character varying(254) NOT NULL,
    api_token text,
    vendor_id character varying(20) NOT NULL,
    app_product_id uuid NOT NULL,
    developer_id character varying(200) NOT NULL,
    app_name character varying(300) NOT NULL,
    app_key character varying(300) NOT NULL,
    last_success_at timestamp with time zone,
    last_error text NOT NULL,
    last_error_at timestamp with time zone,
    full_synced_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    product_id bigint NOT NULL,
    lists jsonb,
    is_full_sync_due boolean DEFAULT false NOT NULL,
    report character varying(10) DEFAULT 'pages'::character varying NOT NULL,
    splits_insights boolean DEFAULT false NOT NULL,
    plain_user_name_until timestamp with time zone,
    secret_user_name text,
    includes_staff_licenses boolean DEFAULT false NOT NULL,
    token_expires_on date,
    CONSTRAINT connection_report_allowed CHECK (((report)::text = ANY ((ARRAY['pages'::character varying, 'export'::character varying, 'dates'::character varying])::text[]))),
    CONSTRAINT connection_state_allowed CHECK (((state)::text = ANY ((ARRAY['active'::character varying, 'requires_authentication'::character varying, 'disconnected'::character varying])::text[]))),
    CONSTRAINT connection_token_until_disconnected CHECK ((((api_token IS NULL) AND ((state)::text = 'disconnected'::text)) OR ((NOT ((state)::text = 'disconnected'::text)) AND (api_token IS NOT NULL)))),
    CONSTRAINT marketplace_connection_generation_check CHECK ((generation >= 0))
);
ALTER TABLE public.marketplace_connection ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.marketplace_connection_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.marketplace_failedrecord (
    id bigint NOT NULL,
    license_key character varying(200) NOT NULL,
    reason text NOT NULL,
    run_id bigint NOT NULL
);
ALTER TABLE public.marketplace_failedrecord ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.marketplace_failedrecord_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.marketplace_feedback (
    digest bytea NOT NULL,
    names character varying(200)[] NOT NULL,
    date date NOT NULL,
    type character varying(50) NOT NULL,
    reason_key character varying(100) NOT NULL,
    reason character varying(500) NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    product_id bigint NOT NULL
);
CREATE TABLE public.marketplace_ledger (
    product_id bigint NOT NULL,
    revision bigint DEFAULT 0 NOT NULL,
    looked_at timestamp with time zone,
    filled_at timestamp with time zone,
    needs_fill boolean DEFAULT true NOT NULL
);
CREATE TABLE public.marketplace_ledgerlicense (
    license character varying(200) NOT NULL,
    key character varying(200) NOT NULL,
    cloud_id character varying(512) NOT NULL,
    as_of date NOT NULL,
    digest bytea NOT NULL,
    facts jsonb NOT NULL,
    links text[] NOT NULL,
    listings jsonb NOT NULL,
    is_new boolean NOT NULL,
    has_history boolean DEFAULT false NOT NULL,
    seen_at timestamp with time zone,
    stale smallint NOT NULL,
    deadline date,
    product_id bigint NOT NULL,
    CONSTRAINT marketplace_ledgerlicense_stale_check CHECK ((stale >= 0))
);
CREATE TABLE public.marketplace_license (
    key character varying(200) NOT NULL,
    cloud_id character varying(512) NOT NULL,
    fields jsonb NOT NULL,
    digest bytea NOT NULL,
    run_id bigint NOT NULL,
    product_id bigint NOT NULL,
    parent_key character varying(200) DEFAULT ''::character varying NOT NULL,
    unlisted_since timestamp with time zone
);
CREATE TABLE public.marketplace_licensealias (
    name character varying(200) NOT NULL,
    license character varying(200) NOT NULL,
    product_id bigint NOT NULL
);
CREATE TABLE public.marketplace_licenseevent (
    license character varying(200) NOT NULL,
    type character varying(30) NOT NULL,
    anchor character varying(200) NOT NULL,
    cloud_id character varying(512) NOT NULL,
    date date NOT NULL,
    known_on date NOT NULL,
    details jsonb NOT NULL,
    sources character varying(20)[] NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    withdrawn_at timestamp with time zone,
    is_announced boolean NOT NULL,
    product_id bigint NOT NULL
);
CREATE TABLE public.marketplace_metricevent (
    metric character varying(20) NOT NULL,
    date date NOT NULL,
    name character varying(200) NOT NULL,
    names character varying(200)[] NOT NULL,
    cloud_id character varying(512) NOT NULL,
    months smallint,
    seen_at timestamp with time zone NOT NULL,
    product_id bigint NOT NULL,
    CONSTRAINT marketplace_metricevent_months_check CHECK ((months >= 0)),
    CONSTRAINT metric_allowed CHECK (((metric)::text = ANY ((ARRAY['churn'::character varying, 'conversion'::character varying, 'renewal'::character varying])::text[])))
);
CREATE TABLE public.marketplace_observation (
    license character varying(200) NOT NULL,
    as_of date NOT NULL,
    digest bytea NOT NULL,
    fields jsonb NOT NULL,
    first_seen timestamp with time zone NOT NULL,
    last_seen timestamp with time zone NOT NULL,
    source character varying(10) NOT NULL,
    product_id bigint NOT NULL,
    CONSTRAINT observation_source_allowed CHECK (((source)::text = ANY ((ARRAY['sync'::character varying, 'history'::character varying])::text[])))
);
CREATE TABLE public.marketplace_pendinglicense (
    id bigint NOT NULL,
    key character varying(200) NOT NULL,
    cloud_id character varying(512) NOT NULL,
    fields jsonb NOT NULL,
    digest bytea NOT NULL,
    run_id bigint NOT NULL
);
ALTER TABLE public.marketplace_pendinglicense ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.marketplace_pendinglicense_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.marketplace_reportreading (
    id bigint NOT NULL,
    report character varying(20) NOT NULL,
    is_listed boolean,
    requested_at timestamp with time zone,
    read_at timestamp with time zone,
    full_at timestamp with time zone,
    failed_at timestamp with time zone,
    problem text NOT NULL,
    note text NOT NULL,
    rows bigint NOT NULL,
    connection_id bigint NOT NULL,
    CONSTRAINT marketplace_reportreading_rows_check CHECK ((rows >= 0)),
    CONSTRAINT reading_report_allowed CHECK (((report)::text = ANY ((ARRAY['transactions'::character varying, 'feedback'::character varying, 'churn'::character varying, 'conversion'::character varying, 'renewal'::character varying, 'history'::character varying])::text[])))
);
ALTER TABLE public.marketplace_reportreading ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.marketplace_reportreading_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.marketplace_seenlicenses (
    id bigint NOT NULL,
    keys character varying(200)[] NOT NULL,
    run_id bigint NOT NULL
);
ALTER TABLE public.marketplace_seenlicenses ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.marketplace_seenlicenses_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.marketplace_syncrun (
    id bigint NOT NULL,
    generation integer NOT NULL,
    kind character varying(10) NOT NULL,
    state character varying(10) NOT NULL,
    requested_at timestamp with time zone NOT NULL,
    due_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    since date,
    pass_number smallint NOT NULL,
    "offset" integer NOT NULL,
    is_closing boolean NOT NULL,
    recent jsonb NOT NULL,
    attempt integer NOT NULL,
    put_downs smallint NOT NULL,
    stumbles smallint NOT NULL,
    error text NOT NULL,
    note text NOT NULL,
    pages integer NOT NULL,
    seen integer NOT NULL,
    imported integer NOT NULL,
    unchanged integer NOT NULL,
    skipped integer NOT NULL,
    failed integer NOT NULL,
    without_cloud_id integer NOT NULL,
    accounts_updated integer NOT NULL,
    accounts_created integer NOT NULL,
    connection_id bigint NOT NULL,
    lists jsonb,
    export jsonb,
    of_other_product integer DEFAULT 0 NOT NULL,
    page_marker jsonb,
    report character varying(10) DEFAULT 'pages'::character varying NOT NULL,
    splits_insights boolean DEFAULT false NOT NULL,
    totals jsonb,
    trial_report character varying(10) DEFAULT ''::character varying NOT NULL,
    trial_reason character varying(200) DEFAULT ''::character varying NOT NULL,
    unlisted integer DEFAULT 0 NOT NULL,
    CONSTRAINT marketplace_syncrun_accounts_created_check CHECK ((accounts_created >= 0)),
    CONSTRAINT marketplace_syncrun_accounts_updated_check CHECK ((accounts_updated >= 0)),
    CONSTRAINT marketplace_syncrun_attempt_check CHECK ((attempt >= 0)),
    CONSTRAINT marketplace_syncrun_failed_check CHECK ((failed >= 0)),
    CONSTRAINT marketplace_syncrun_generation_check CHECK ((generation >= 0)),
    CONSTRAINT marketplace_syncrun_imported_check CHECK ((imported >= 0)),
    CONSTRAINT marketplace_syncrun_of_other_product_check CHECK ((of_other_product >= 0)),
    CONSTRAINT marketplace_syncrun_offset_check CHECK (("offset" >= 0)),
    CONSTRAINT marketplace_syncrun_pages_check CHECK ((pages >= 0)),
    CONSTRAINT marketplace_syncrun_pass_number_check CHECK ((pass_number >= 0)),
    CONSTRAINT marketplace_syncrun_put_downs_check CHECK ((put_downs >= 0)),
    CONSTRAINT marketplace_syncrun_seen_check CHECK ((seen >= 0)),
    CONSTRAINT marketplace_syncrun_skipped_check CHECK ((skipped >= 0)),
    CONSTRAINT marketplace_syncrun_stumbles_check CHECK ((stumbles >= 0)),
    CONSTRAINT marketplace_syncrun_unchanged_check CHECK ((unchanged >= 0)),
    CONSTRAINT marketplace_syncrun_unlisted_check CHECK ((unlisted >= 0)),
    CONSTRAINT marketplace_syncrun_without_cloud_id_check CHECK ((without_cloud_id >= 0)),
    CONSTRAINT run_counters_add_up CHECK ((seen = (((imported + unchanged) + skipped) + failed))),
    CONSTRAINT run_finished_when_over CHECK ((((finished_at IS NULL) AND ((state)::text = ANY ((ARRAY['waiting'::character varying, 'running'::character varying])::text[]))) OR ((finished_at IS NOT NULL) AND ((state)::text = ANY ((ARRAY['succeeded'::character varying, 'failed'::character varying, 'stopped'::character varying])::text[]))))),
    CONSTRAINT run_kind_allowed CHECK (((kind)::text = ANY ((ARRAY['first'::character varying, 'full'::character varying, 'recent'::character varying])::text[]))),
    CONSTRAINT run_report_allowed CHECK (((report)::text = ANY ((ARRAY['pages'::character varying, 'export'::character varying, 'dates'::character varying])::text[]))),
    CONSTRAINT run_skips_include_cloud_id CHECK ((without_cloud_id <= skipped))
);
ALTER TABLE public.marketplace_syncrun ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.marketplace_syncrun_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.marketplace_transaction (
    transaction_id character varying(200) NOT NULL,
    line_item_id character varying(200) NOT NULL,
    names character varying(200)[] NOT NULL,
    sale_date date,
    fields jsonb NOT NULL,
    digest bytea NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    product_id bigint NOT NULL
);
CREATE TABLE public.notifications_delivery (
    id bigint NOT NULL,
    attempted_at timestamp with time zone NOT NULL,
    outcome character varying(11) NOT NULL,
    status smallint,
    seconds double precision NOT NULL,
    error text NOT NULL,
    response text NOT NULL,
    product_id bigint NOT NULL,
    message_id bigint NOT NULL,
    CONSTRAINT notifications_delivery_status_check CHECK ((status >= 0))
);
ALTER TABLE public.notifications_delivery ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.notifications_delivery_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.notifications_destination (
    id bigint NOT NULL,
    kind character varying(10) NOT NULL,
    name character varying(100) NOT NULL,
    address text NOT NULL,
    address_hint character varying(300) NOT NULL,
    signing_secrets text NOT NULL,
    digest character varying(10) NOT NULL,
    state character varying(10) NOT NULL,
    pause_reason text NOT NULL,
    verified_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    site_url character varying(300) NOT NULL,
    failures integer NOT NULL,
    failing_since timestamp with time zone,
    retry_at timestamp with time zone,
    lease uuid,
    leased_until timestamp with time zone,
    served_at timestamp with time zone,
    overflowed bigint NOT NULL,
    product_id bigint NOT NULL,
    owner_id integer,
    is_hook boolean DEFAULT false NOT NULL,
    CONSTRAINT destination_digest_known CHECK (((digest)::text = ANY ((ARRAY['none'::character varying, 'daily'::character varying, 'weekly'::character varying])::text[]))),
    CONSTRAINT destination_kind_known CHECK (((kind)::text = ANY ((ARRAY['webhook'::character varying, 'slack'::character varying, 'teams'::character varying, 'email'::character varying])::text[]))),
    CONSTRAINT destination_state_known CHECK (((state)::text = ANY ((ARRAY['unverified'::character varying, 'active'::character varying, 'paused'::character varying])::text[]))),
    CONSTRAINT notifications_destination_failures_check CHECK ((failures >= 0))
);
ALTER TABLE public.notifications_destination ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.notifications_destination_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.notifications_digest (
    id bigint NOT NULL,
    cadence character varying(4) NOT NULL,
    weekday smallint NOT NULL,
    hour smallint NOT NULL,
    time_zone character varying(64) NOT NULL,
    is_enabled boolean NOT NULL,
    unsubscribed_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    destination_id bigint NOT NULL,
    owner_id integer,
    product_id bigint NOT NULL,
    segment_id bigint,
    view_id bigint,
    workspace_id bigint NOT NULL,
    CONSTRAINT digest_cadence_known CHECK (((cadence)::text = ANY ((ARRAY['week'::character varying, 'day'::character varying])::text[]))),
    CONSTRAINT digest_of_one_thing CHECK (((segment_id IS NULL) OR (view_id IS NULL))),
    CONSTRAINT digest_time_known CHECK (((hour <= 23) AND (weekday <= 6))),
    CONSTRAINT notifications_digest_hour_check CHECK ((hour >= 0)),
    CONSTRAINT notifications_digest_weekday_check CHECK ((weekday >= 0))
);
ALTER TABLE public.notifications_digest ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.notifications_digest_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.notifications_digestissue (
    cadence character varying(4) NOT NULL,
    day date NOT NULL,
    message_id character varying(40) NOT NULL,
    issued_at timestamp with time zone NOT NULL,
    digest_id bigint NOT NULL
);
CREATE TABLE public.notifications_outboxmessage (
    id bigint NOT NULL,
    message_id character varying(40) NOT NULL,
    scope character varying(7) NOT NULL,
    subject_id bigint,
    external_id text NOT NULL,
    name text NOT NULL,
    title text NOT NULL,
    payload jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    state character varying(10) NOT NULL,
    attempts integer NOT NULL,
    first_attempt_at timestamp with time zone,
    next_attempt_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone,
    destination_id bigint NOT NULL,
    product_id bigint NOT NULL,
    subscription_id bigint,
    CONSTRAINT notifications_outboxmessage_attempts_check CHECK ((attempts >= 0)),
    CONSTRAINT outbox_state_known CHECK (((state)::text = ANY ((ARRAY['waiting'::character varying, 'delivered'::character varying, 'failed'::character varying])::text[])))
);
ALTER TABLE public.notifications_outboxmessage ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.notifications_outboxmessage_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.notifications_subscription (
    id bigint NOT NULL,
    trigger character varying(40) NOT NULL,
    scope character varying(7) NOT NULL,
    insight character varying(60) NOT NULL,
    threshold double precision,
    direction character varying(4) NOT NULL,
    quiet_hours smallint NOT NULL,
    tells_changed_rules boolean NOT NULL,
    is_enabled boolean NOT NULL,
    started_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    destination_id bigint NOT NULL,
    filter_segment_id bigint,
    product_id bigint NOT NULL,
    segment_id bigint,
    workspace_id bigint,
    watch_id bigint,
    traits character varying(256)[] DEFAULT '{}'::character varying(256)[] NOT NULL,
    to_owner boolean DEFAULT false NOT NULL,
    CONSTRAINT notifications_subscription_quiet_hours_check CHECK ((quiet_hours >= 0)),
    CONSTRAINT subscription_direction_known CHECK (((direction)::text = ANY ((ARRAY[''::character varying, 'up'::character varying, 'down'::character varying])::text[]))),
    CONSTRAINT subscription_scope_known CHECK (((scope)::text = ANY ((ARRAY[''::character varying, 'user'::character varying, 'account'::character varying])::text[])))
);
ALTER TABLE public.notifications_subscription ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.notifications_subscription_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.notifications_watch (
    id bigint NOT NULL,
    key character varying(200) NOT NULL,
    definition text NOT NULL,
    is_stale boolean NOT NULL,
    swept_day date,
    swept_at timestamp with time zone,
    seconds double precision NOT NULL,
    waiting_since timestamp with time zone,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    product_id bigint NOT NULL,
    segment_id bigint,
    workspace_id bigint
);
ALTER TABLE public.notifications_watch ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.notifications_watch_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.notifications_watchedmember (
    subject_id bigint NOT NULL,
    product_id bigint NOT NULL,
    watch_id bigint NOT NULL
);
CREATE TABLE public.outcomes_chancelook (
    workspace_id bigint NOT NULL,
    looked_at timestamp with time zone NOT NULL,
    revision bigint,
    score_set_id bigint NOT NULL,
    totals jsonb
);
CREATE TABLE public.outcomes_chancemodel (
    id bigint NOT NULL,
    kind character varying(20) NOT NULL,
    age smallint NOT NULL,
    fitted_at timestamp with time zone NOT NULL,
    revision bigint,
    outcomes integer NOT NULL,
    good integer NOT NULL,
    coefficients jsonb,
    proof jsonb,
    product_id bigint NOT NULL,
    workspace_id bigint NOT NULL,
    score_set_id bigint
);
ALTER TABLE public.outcomes_chancemodel ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.outcomes_chancemodel_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.outcomes_licenseoutcome (
    license character varying(200) NOT NULL,
    kind character varying(20) NOT NULL,
    cloud_id character varying(512) NOT NULL,
    began_on date NOT NULL,
    day date NOT NULL,
    known_on date,
    answered_on date,
    decided_on date,
    result character varying(20) NOT NULL,
    exclusion character varying(20) NOT NULL,
    seats integer,
    cents bigint,
    product_id bigint NOT NULL,
    earlier_seats jsonb,
    CONSTRAINT license_outcome_kind_known CHECK (((kind)::text = ANY ((ARRAY['renewal'::character varying, 'monthly_stay'::character varying, 'evaluation'::character varying])::text[])))
);
CREATE TABLE public.outcomes_licenserevision (
    product_id bigint NOT NULL,
    revision bigint NOT NULL
);
CREATE TABLE public.outcomes_storedbacktest (
    id bigint NOT NULL,
    kind character varying(20) NOT NULL,
    result jsonb NOT NULL,
    revision bigint,
    score_set_id bigint NOT NULL,
    definition character varying(64) NOT NULL,
    computed_at timestamp with time zone NOT NULL,
    product_id bigint NOT NULL,
    segment_id bigint,
    workspace_id bigint NOT NULL,
    suggested_at timestamp with time zone,
    suggestion jsonb
);
ALTER TABLE public.outcomes_storedbacktest ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.outcomes_storedbacktest_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.outcomes_storedforecast (
    id bigint NOT NULL,
    kind character varying(20) NOT NULL,
    made_on date NOT NULL,
    looked_at timestamp with time zone NOT NULL,
    stays boolean NOT NULL,
    result jsonb NOT NULL,
    versions jsonb NOT NULL,
    licenses character varying(200)[] NOT NULL,
    days date[] NOT NULL,
    seats integer[] NOT NULL,
    cents bigint[] NOT NULL,
    chances double precision[] NOT NULL,
    product_id bigint NOT NULL,
    workspace_id bigint NOT NULL
);
ALTER TABLE public.outcomes_storedforecast ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.outcomes_storedforecast_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.readapi_apitoken (
    id bigint NOT NULL,
    name character varying(100) NOT NULL,
    secret text NOT NULL,
    digest bytea NOT NULL,
    hint character varying(9) NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    last_used_at timestamp with time zone,
    revoked_at timestamp with time zone,
    product_id bigint NOT NULL,
    expires_at timestamp with time zone,
    hides_user_traits boolean DEFAULT false NOT NULL,
    last_used_from inet,
    may_read_metrics boolean DEFAULT false NOT NULL,
    may_use_mcp boolean DEFAULT true NOT NULL,
    networks character varying(50)[],
    owner_id integer,
    purpose character varying(200) DEFAULT ''::character varying NOT NULL,
    reads character varying(8) DEFAULT 'all'::character varying NOT NULL,
    workspace_ids bigint[],
    manages_hooks boolean DEFAULT false NOT NULL,
    CONSTRAINT token_reads_known CHECK (((reads)::text = ANY ((ARRAY['all'::character varying, 'accounts'::character varying, 'users'::character varying, 'nothing'::character varying])::text[])))
);
ALTER TABLE public.readapi_apitoken ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.readapi_apitoken_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE UNLOGGED TABLE public.readapi_usage (
    token_id bigint NOT NULL,
    minute timestamp with time zone NOT NULL,
    requests integer NOT NULL
);
CREATE TABLE public.trends_dayfigures (
    segment_id bigint NOT NULL,
    day date NOT NULL,
    score_set_id bigint NOT NULL,
    accounts integer,
    daily_accounts integer,
    weekly_accounts integer,
    new_accounts integer,
    returned_accounts integer,
    stopped_accounts integer,
    account_mean double precision,
    account_median double precision,
    account_bands integer[] NOT NULL,
    users integer,
    daily_users integer,
    weekly_users integer,
    user_mean double precision,
    user_median double precision,
    user_bands integer[] NOT NULL,
    seats integer,
    active_seats integer,
    entered integer,
    "left" integer,
    workspace_id bigint NOT NULL
);
CREATE TABLE public.trends_segmentmove (
    scope character varying(7) NOT NULL,
    subject_id bigint NOT NULL,
    segment_id bigint NOT NULL,
    day date NOT NULL,
    is_entry boolean NOT NULL,
    product_id bigint NOT NULL
);
CREATE TABLE public.trends_segmentroster (
    segment_id bigint NOT NULL,
    day date NOT NULL,
    rule jsonb NOT NULL,
    members bytea NOT NULL
);
CREATE TABLE public.trends_storedchanges (
    id bigint NOT NULL,
    last_day date NOT NULL,
    has_figures boolean NOT NULL,
    question jsonb NOT NULL,
    result jsonb,
    segment_id bigint,
    workspace_id bigint NOT NULL
);
ALTER TABLE public.trends_storedchanges ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.trends_storedchanges_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.trends_storedcohorts (
    id bigint NOT NULL,
    scope character varying(7) NOT NULL,
    event_name_id bigint NOT NULL,
    trait character varying(256) NOT NULL,
    result jsonb,
    through date,
    computed_at timestamp with time zone,
    wanted_at timestamp with time zone,
    workspace_id bigint NOT NULL
);
ALTER TABLE public.trends_storedcohorts ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.trends_storedcohorts_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.trends_usageday (
    feature_id bigint NOT NULL,
    event_name_id bigint NOT NULL,
    day date NOT NULL,
    users integer NOT NULL,
    accounts integer NOT NULL,
    used_accounts integer,
    started_accounts integer,
    stopped_accounts integer,
    product_id bigint NOT NULL
);
ALTER TABLE ONLY public.engagement_event ATTACH PARTITION public.engagement_event_default DEFAULT;
INSERT INTO public.auth_permission VALUES
	(1, 'Can add log entry', 1, 'add_logentry'),
	(2, 'Can change log entry', 1, 'change_logentry'),
	(3, 'Can delete log entry', 1, 'delete_logentry'),
	(4, 'Can view log entry', 1, 'view_logentry'),
	(5, 'Can add permission', 2, 'add_permission'),
	(6, 'Can change permission', 2, 'change_permission'),
	(7, 'Can delete permission', 2, 'delete_permission'),
	(8, 'Can view permission', 2, 'view_permission'),
	(9, 'Can add group', 3, 'add_group'),
	(10, 'Can change group', 3, 'change_group'),
	(11, 'Can delete group', 3, 'delete_group'),
	(12, 'Can view group', 3, 'view_group'),
	(13, 'Can add user', 4, 'add_user'),
	(14, 'Can change user', 4, 'change_user'),
	(15, 'Can delete user', 4, 'delete_user'),
	(16, 'Can view user', 4, 'view_user'),
	(17, 'Can add content type', 5, 'add_contenttype'),
	(18, 'Can change content type', 5, 'change_contenttype'),
	(19, 'Can delete content type', 5, 'delete_contenttype'),
	(20, 'Can view content type', 5, 'view_contenttype'),
	(21, 'Can add session', 6, 'add_session'),
	(22, 'Can change session', 6, 'change_session'),
	(23, 'Can delete session', 6, 'delete_session'),
	(24, 'Can view session', 6, 'view_session'),
	(25, 'Can add crontab', 7, 'add_crontabschedule'),
	(26, 'Can change crontab', 7, 'change_crontabschedule'),
	(27, 'Can delete crontab', 7, 'delete_crontabschedule'),
	(28, 'Can view crontab', 7, 'view_crontabschedule'),
	(29, 'Can add interval', 8, 'add_intervalschedule'),
	(30, 'Can change interval', 8, 'change_intervalschedule'),
	(31, 'Can delete interval', 8, 'delete_intervalschedule'),
	(32, 'Can view interval', 8, 'view_intervalschedule'),
	(33, 'Can add periodic task', 9, 'add_periodictask'),
	(34, 'Can change periodic task', 9, 'change_periodictask'),
	(35, 'Can delete periodic task', 9, 'delete_periodictask'),
	(36, 'Can view periodic task', 9, 'view_periodictask'),
	(37, 'Can add periodic task track', 10, 'add_periodictasks'),
	(38, 'Can change periodic task track', 10, 'change_periodictasks'),
	(39, 'Can delete periodic task track', 10, 'delete_periodictasks'),
	(40, 'Can view periodic task track', 10, 'view_periodictasks'),
	(41, 'Can add solar event', 11, 'add_solarschedule'),
	(42, 'Can change solar event', 11, 'change_solarschedule'),
	(43, 'Can delete solar event', 11, 'delete_solarschedule'),
	(44, 'Can view solar event', 11, 'view_solarschedule'),
	(45, 'Can add clocked', 12, 'add_clockedschedule'),
	(46, 'Can change clocked', 12, 'change_clockedschedule'),
	(47, 'Can delete clocked', 12, 'delete_clockedschedule'),
	(48, 'Can view clocked', 12, 'view_clockedschedule'),
	(49, 'Can add job', 13, 'add_job'),
	(50, 'Can change job', 13, 'change_job'),
	(51, 'Can delete job', 13, 'delete_job'),
	(52, 'Can view job', 13, 'view_job'),
	(53, 'Can add product', 14, 'add_product'),
	(54, 'Can change product', 14, 'change_product'),
	(55, 'Can delete product', 14, 'delete_product'),
	(56, 'Can view product', 14, 'view_product'),
	(57, 'Can add event name', 15, 'add_eventname'),
	(58, 'Can change event name', 15, 'change_eventname'),
	(59, 'Can delete event name', 15, 'delete_eventname'),
	(60, 'Can view event name', 15, 'view_eventname'),
	(61, 'Can add account', 16, 'add_account'),
	(62, 'Can change account', 16, 'change_account'),
	(63, 'Can delete account', 16, 'delete_account'),
	(64, 'Can view account', 16, 'view_account'),
	(65, 'Can add product member', 17, 'add_productmember'),
	(66, 'Can change product member', 17, 'change_productmember'),
	(67, 'Can delete product member', 17, 'delete_productmember'),
	(68, 'Can view product member', 17, 'view_productmember'),
	(69, 'Can add user', 18, 'add_user'),
	(70, 'Can change user', 18, 'change_user'),
	(71, 'Can delete user', 18, 'delete_user'),
	(72, 'Can view user', 18, 'view_user'),
	(73, 'Can add membership', 19, 'add_membership'),
	(74, 'Can change membership', 19, 'change_membership'),
	(75, 'Can delete membership', 19, 'delete_membership'),
	(76, 'Can view membership', 19, 'view_membership'),
	(77, 'Can add event', 20, 'add_event'),
	(78, 'Can change event', 20, 'change_event'),
	(79, 'Can delete event', 20, 'delete_event'),
	(80, 'Can view event', 20, 'view_event'),
	(81, 'Can add daily count', 21, 'add_dailycount'),
	(82, 'Can change daily count', 21, 'change_dailycount'),
	(83, 'Can delete daily count', 21, 'delete_dailycount'),
	(84, 'Can view daily count', 21, 'view_dailycount'),
	(85, 'Can add workspace', 22, 'add_workspace'),
	(86, 'Can change workspace', 22, 'change_workspace'),
	(87, 'Can delete workspace', 22, 'delete_workspace'),
	(88, 'Can view workspace', 22, 'view_workspace'),
	(89, 'Can add event weight', 23, 'add_eventweight'),
	(90, 'Can change event weight', 23, 'change_eventweight'),
	(91, 'Can delete event weight', 23, 'delete_eventweight'),
	(92, 'Can view event weight', 23, 'view_eventweight'),
	(93, 'Can add score set', 24, 'add_scoreset'),
	(94, 'Can change score set', 24, 'change_scoreset'),
	(95, 'Can delete score set', 24, 'delete_scoreset'),
	(96, 'Can view score set', 24, 'view_scoreset'),
	(97, 'Can add scored event', 25, 'add_scoredevent'),
	(98, 'Can change scored event', 25, 'change_scoredevent'),
	(99, 'Can delete scored event', 25, 'delete_scoredevent'),
	(100, 'Can view scored event', 25, 'view_scoredevent'),
	(101, 'Can add daily benchmark', 26, 'add_dailybenchmark'),
	(102, 'Can change daily benchmark', 26, 'change_dailybenchmark'),
	(103, 'Can delete daily benchmark', 26, 'delete_dailybenchmark'),
	(398, 'Can change sync', 100, 'change_syncrun'),
	(104, 'Can view daily benchmark', 26, 'view_dailybenchmark'),
	(105, 'Can add account engagement', 27, 'add_accountengagement'),
	(106, 'Can change account engagement', 27, 'change_accountengagement'),
	(107, 'Can delete account engagement', 27, 'delete_accountengagement'),
	(108, 'Can view account engagement', 27, 'view_accountengagement'),
	(109, 'Can add user engagement', 28, 'add_userengagement'),
	(110, 'Can change user engagement', 28, 'change_userengagement'),
	(111, 'Can delete user engagement', 28, 'delete_userengagement'),
	(112, 'Can view user engagement', 28, 'view_userengagement'),
	(113, 'Can add forgotten subject', 29, 'add_forgottensubject'),
	(114, 'Can change forgotten subject', 29, 'change_forgottensubject'),
	(115, 'Can delete forgotten subject', 29, 'delete_forgottensubject'),
	(116, 'Can view forgotten subject', 29, 'view_forgottensubject'),
	(117, 'Can add segment', 30, 'add_segment'),
	(118, 'Can change segment', 30, 'change_segment'),
	(119, 'Can delete segment', 30, 'delete_segment'),
	(120, 'Can view segment', 30, 'view_segment'),
	(121, 'Can add login attempts', 31, 'add_loginattempts'),
	(122, 'Can change login attempts', 31, 'change_loginattempts'),
	(123, 'Can delete login attempts', 31, 'delete_loginattempts'),
	(124, 'Can view login attempts', 31, 'view_loginattempts'),
	(125, 'Can add reattribution request', 32, 'add_reattributionrequest'),
	(126, 'Can change reattribution request', 32, 'change_reattributionrequest'),
	(127, 'Can delete reattribution request', 32, 'delete_reattributionrequest'),
	(128, 'Can view reattribution request', 32, 'view_reattributionrequest'),
	(129, 'Can add cached counts', 33, 'add_cachedcounts'),
	(130, 'Can change cached counts', 33, 'change_cachedcounts'),
	(131, 'Can delete cached counts', 33, 'delete_cachedcounts'),
	(132, 'Can view cached counts', 33, 'view_cachedcounts'),
	(133, 'Can add rescore request', 34, 'add_rescorerequest'),
	(134, 'Can change rescore request', 34, 'change_rescorerequest'),
	(135, 'Can delete rescore request', 34, 'delete_rescorerequest'),
	(136, 'Can view rescore request', 34, 'view_rescorerequest'),
	(137, 'Can add operation counter', 35, 'add_operationcounter'),
	(138, 'Can change operation counter', 35, 'change_operationcounter'),
	(139, 'Can delete operation counter', 35, 'delete_operationcounter'),
	(140, 'Can view operation counter', 35, 'view_operationcounter'),
	(141, 'Can add daily job', 36, 'add_dailyjob'),
	(142, 'Can change daily job', 36, 'change_dailyjob'),
	(143, 'Can delete daily job', 36, 'delete_dailyjob'),
	(144, 'Can view daily job', 36, 'view_dailyjob'),
	(145, 'Can add alias', 37, 'add_alias'),
	(146, 'Can change alias', 37, 'change_alias'),
	(147, 'Can delete alias', 37, 'delete_alias'),
	(148, 'Can view alias', 37, 'view_alias'),
	(149, 'Can add join request', 38, 'add_joinrequest'),
	(150, 'Can change join request', 38, 'change_joinrequest'),
	(151, 'Can delete join request', 38, 'delete_joinrequest'),
	(152, 'Can view join request', 38, 'view_joinrequest'),
	(153, 'Can add search backlog', 39, 'add_searchbacklog'),
	(154, 'Can change search backlog', 39, 'change_searchbacklog'),
	(155, 'Can delete search backlog', 39, 'delete_searchbacklog'),
	(156, 'Can view search backlog', 39, 'view_searchbacklog'),
	(157, 'Can add search entry', 40, 'add_searchentry'),
	(158, 'Can change search entry', 40, 'change_searchentry'),
	(159, 'Can delete search entry', 40, 'delete_searchentry'),
	(160, 'Can view search entry', 40, 'view_searchentry'),
	(161, 'Can add stored order', 41, 'add_storedorder'),
	(162, 'Can change stored order', 41, 'change_storedorder'),
	(163, 'Can delete stored order', 41, 'delete_storedorder'),
	(164, 'Can view stored order', 41, 'view_storedorder'),
	(165, 'Can add order chunk', 42, 'add_orderchunk'),
	(166, 'Can change order chunk', 42, 'change_orderchunk'),
	(167, 'Can delete order chunk', 42, 'delete_orderchunk'),
	(168, 'Can view order chunk', 42, 'view_orderchunk'),
	(169, 'Can add change stamp', 43, 'add_changestamp'),
	(170, 'Can change change stamp', 43, 'change_changestamp'),
	(171, 'Can delete change stamp', 43, 'delete_changestamp'),
	(172, 'Can view change stamp', 43, 'view_changestamp'),
	(173, 'Can add subject change', 44, 'add_subjectchange'),
	(174, 'Can change subject change', 44, 'change_subjectchange'),
	(175, 'Can delete subject change', 44, 'delete_subjectchange'),
	(176, 'Can view subject change', 44, 'view_subjectchange'),
	(177, 'Can add invite', 45, 'add_invite'),
	(178, 'Can change invite', 45, 'change_invite'),
	(179, 'Can delete invite', 45, 'delete_invite'),
	(180, 'Can view invite', 45, 'view_invite'),
	(181, 'Can add saved view', 46, 'add_savedview'),
	(182, 'Can change saved view', 46, 'change_savedview'),
	(183, 'Can delete saved view', 46, 'delete_savedview'),
	(184, 'Can view saved view', 46, 'view_savedview'),
	(185, 'Can add login preferences', 47, 'add_loginpreferences'),
	(186, 'Can change login preferences', 47, 'change_loginpreferences'),
	(187, 'Can delete login preferences', 47, 'delete_loginpreferences'),
	(188, 'Can view login preferences', 47, 'view_loginpreferences'),
	(189, 'Can add trail entry', 48, 'add_trailentry'),
	(190, 'Can change trail entry', 48, 'change_trailentry'),
	(191, 'Can delete trail entry', 48, 'delete_trailentry'),
	(192, 'Can view trail entry', 48, 'view_trailentry'),
	(193, 'Can add external identity', 49, 'add_externalidentity'),
	(194, 'Can change external identity', 49, 'change_externalidentity'),
	(195, 'Can delete external identity', 49, 'delete_externalidentity'),
	(196, 'Can view external identity', 49, 'view_externalidentity'),
	(197, 'Can add login session', 50, 'add_loginsession'),
	(198, 'Can change login session', 50, 'change_loginsession'),
	(199, 'Can delete login session', 50, 'delete_loginsession'),
	(200, 'Can view login session', 50, 'view_loginsession'),
	(201, 'Can add recovery code', 51, 'add_recoverycode'),
	(202, 'Can change recovery code', 51, 'change_recoverycode'),
	(203, 'Can delete recovery code', 51, 'delete_recoverycode'),
	(204, 'Can view recovery code', 51, 'view_recoverycode'),
	(205, 'Can add role grant', 52, 'add_rolegrant'),
	(206, 'Can change role grant', 52, 'change_rolegrant'),
	(207, 'Can delete role grant', 52, 'delete_rolegrant'),
	(208, 'Can view role grant', 52, 'view_rolegrant'),
	(209, 'Can add second factor', 53, 'add_secondfactor'),
	(210, 'Can change second factor', 53, 'change_secondfactor'),
	(211, 'Can delete second factor', 53, 'delete_secondfactor'),
	(212, 'Can view second factor', 53, 'view_secondfactor'),
	(213, 'Can add limits', 54, 'add_productlimits'),
	(214, 'Can change limits', 54, 'change_productlimits'),
	(215, 'Can delete limits', 54, 'delete_productlimits'),
	(216, 'Can view limits', 54, 'view_productlimits'),
	(217, 'Can add product usage', 55, 'add_productusage'),
	(218, 'Can change product usage', 55, 'change_productusage'),
	(219, 'Can delete product usage', 55, 'delete_productusage'),
	(220, 'Can view product usage', 55, 'view_productusage'),
	(221, 'Can add request count', 56, 'add_requestcount'),
	(222, 'Can change request count', 56, 'change_requestcount'),
	(223, 'Can delete request count', 56, 'delete_requestcount'),
	(224, 'Can view request count', 56, 'view_requestcount'),
	(225, 'Can add trait name', 57, 'add_traitname'),
	(226, 'Can change trait name', 57, 'change_traitname'),
	(227, 'Can delete trait name', 57, 'delete_traitname'),
	(228, 'Can view trait name', 57, 'view_traitname'),
	(229, 'Can add turned day', 58, 'add_turnedday'),
	(230, 'Can change turned day', 58, 'change_turnedday'),
	(231, 'Can delete turned day', 58, 'delete_turnedday'),
	(232, 'Can view turned day', 58, 'view_turnedday'),
	(233, 'Can add subject trace', 59, 'add_subjecttrace'),
	(234, 'Can change subject trace', 59, 'change_subjecttrace'),
	(235, 'Can delete subject trace', 59, 'delete_subjecttrace'),
	(236, 'Can view subject trace', 59, 'view_subjecttrace'),
	(237, 'Can add edited rule', 60, 'add_editedrule'),
	(238, 'Can change edited rule', 60, 'change_editedrule'),
	(239, 'Can delete edited rule', 60, 'delete_editedrule'),
	(240, 'Can view edited rule', 60, 'view_editedrule'),
	(241, 'Can add moved threshold', 61, 'add_movedthreshold'),
	(242, 'Can change moved threshold', 61, 'change_movedthreshold'),
	(243, 'Can delete moved threshold', 61, 'delete_movedthreshold'),
	(244, 'Can view moved threshold', 61, 'view_movedthreshold'),
	(245, 'Can add proven address', 62, 'add_provenaddress'),
	(246, 'Can change proven address', 62, 'change_provenaddress'),
	(247, 'Can delete proven address', 62, 'delete_provenaddress'),
	(248, 'Can view proven address', 62, 'view_provenaddress'),
	(249, 'Can add part request', 63, 'add_partrequest'),
	(250, 'Can change part request', 63, 'change_partrequest'),
	(251, 'Can delete part request', 63, 'delete_partrequest'),
	(252, 'Can view part request', 63, 'view_partrequest'),
	(253, 'Can add late day', 64, 'add_lateday'),
	(254, 'Can change late day', 64, 'change_lateday'),
	(255, 'Can delete late day', 64, 'delete_lateday'),
	(256, 'Can view late day', 64, 'view_lateday'),
	(257, 'Can add active day', 65, 'add_activeday'),
	(258, 'Can change active day', 65, 'change_activeday'),
	(259, 'Can delete active day', 65, 'delete_activeday'),
	(260, 'Can view active day', 65, 'view_activeday'),
	(261, 'Can add alarm', 66, 'add_alarm'),
	(262, 'Can change alarm', 66, 'change_alarm'),
	(263, 'Can delete alarm', 66, 'delete_alarm'),
	(264, 'Can view alarm', 66, 'view_alarm'),
	(265, 'Can add alarm night', 67, 'add_alarmnight'),
	(266, 'Can change alarm night', 67, 'change_alarmnight'),
	(267, 'Can delete alarm night', 67, 'delete_alarmnight'),
	(268, 'Can view alarm night', 67, 'view_alarmnight'),
	(269, 'Can add habit part', 68, 'add_habitpart'),
	(270, 'Can change habit part', 68, 'change_habitpart'),
	(271, 'Can delete habit part', 68, 'delete_habitpart'),
	(272, 'Can view habit part', 68, 'view_habitpart'),
	(273, 'Can add trait change', 69, 'add_traitchange'),
	(274, 'Can change trait change', 69, 'change_traitchange'),
	(275, 'Can delete trait change', 69, 'delete_traitchange'),
	(276, 'Can view trait change', 69, 'view_traitchange'),
	(277, 'Can add account chance', 70, 'add_accountchance'),
	(278, 'Can change account chance', 70, 'change_accountchance'),
	(279, 'Can delete account chance', 70, 'delete_accountchance'),
	(280, 'Can view account chance', 70, 'view_accountchance'),
	(281, 'Can add usage state', 71, 'add_usagestate'),
	(282, 'Can change usage state', 71, 'change_usagestate'),
	(283, 'Can delete usage state', 71, 'delete_usagestate'),
	(284, 'Can view usage state', 71, 'view_usagestate'),
	(285, 'Can add feature', 72, 'add_feature'),
	(286, 'Can change feature', 72, 'change_feature'),
	(287, 'Can delete feature', 72, 'delete_feature'),
	(288, 'Can view feature', 72, 'view_feature'),
	(289, 'Can add late use', 73, 'add_lateuse'),
	(290, 'Can change late use', 73, 'change_lateuse'),
	(291, 'Can delete late use', 73, 'delete_lateuse'),
	(292, 'Can view late use', 73, 'view_lateuse'),
	(293, 'Can add account use', 74, 'add_accountuse'),
	(294, 'Can change account use', 74, 'change_accountuse'),
	(295, 'Can delete account use', 74, 'delete_accountuse'),
	(296, 'Can view account use', 74, 'view_accountuse'),
	(297, 'Can add account note', 75, 'add_accountnote'),
	(298, 'Can change account note', 75, 'change_accountnote'),
	(299, 'Can delete account note', 75, 'delete_accountnote'),
	(399, 'Can delete sync', 100, 'delete_syncrun'),
	(300, 'Can view account note', 75, 'view_accountnote'),
	(301, 'Can add account work', 76, 'add_accountwork'),
	(302, 'Can change account work', 76, 'change_accountwork'),
	(303, 'Can delete account work', 76, 'delete_accountwork'),
	(304, 'Can view account work', 76, 'view_accountwork'),
	(305, 'Can add alarm work', 77, 'add_alarmwork'),
	(306, 'Can change alarm work', 77, 'change_alarmwork'),
	(307, 'Can delete alarm work', 77, 'delete_alarmwork'),
	(308, 'Can view alarm work', 77, 'view_alarmwork'),
	(309, 'Can add activation', 78, 'add_activation'),
	(310, 'Can change activation', 78, 'change_activation'),
	(311, 'Can delete activation', 78, 'delete_activation'),
	(312, 'Can view activation', 78, 'view_activation'),
	(313, 'Can add steps done', 79, 'add_stepsdone'),
	(314, 'Can change steps done', 79, 'change_stepsdone'),
	(315, 'Can delete steps done', 79, 'delete_stepsdone'),
	(316, 'Can view steps done', 79, 'view_stepsdone'),
	(317, 'Can add kept default', 80, 'add_keptdefault'),
	(318, 'Can change kept default', 80, 'change_keptdefault'),
	(319, 'Can delete kept default', 80, 'delete_keptdefault'),
	(320, 'Can view kept default', 80, 'view_keptdefault'),
	(321, 'Can add inbox message', 81, 'add_inboxmessage'),
	(322, 'Can change inbox message', 81, 'change_inboxmessage'),
	(323, 'Can delete inbox message', 81, 'delete_inboxmessage'),
	(324, 'Can view inbox message', 81, 'view_inboxmessage'),
	(325, 'Can add ingestion key', 82, 'add_ingestionkey'),
	(326, 'Can change ingestion key', 82, 'change_ingestionkey'),
	(327, 'Can delete ingestion key', 82, 'delete_ingestionkey'),
	(328, 'Can view ingestion key', 82, 'view_ingestionkey'),
	(329, 'Can add quarantined message', 83, 'add_quarantinedmessage'),
	(330, 'Can change quarantined message', 83, 'change_quarantinedmessage'),
	(331, 'Can delete quarantined message', 83, 'delete_quarantinedmessage'),
	(332, 'Can view quarantined message', 83, 'view_quarantinedmessage'),
	(333, 'Can add drop count', 84, 'add_dropcount'),
	(334, 'Can change drop count', 84, 'change_dropcount'),
	(335, 'Can delete drop count', 84, 'delete_dropcount'),
	(336, 'Can view drop count', 84, 'view_dropcount'),
	(337, 'Can add dropped message', 85, 'add_droppedmessage'),
	(338, 'Can change dropped message', 85, 'change_droppedmessage'),
	(339, 'Can delete dropped message', 85, 'delete_droppedmessage'),
	(340, 'Can view dropped message', 85, 'view_droppedmessage'),
	(341, 'Can add seen message id', 86, 'add_seenmessageid'),
	(342, 'Can change seen message id', 86, 'change_seenmessageid'),
	(343, 'Can delete seen message id', 86, 'delete_seenmessageid'),
	(344, 'Can view seen message id', 86, 'view_seenmessageid'),
	(345, 'Can add imported file', 87, 'add_importedfile'),
	(346, 'Can change imported file', 87, 'change_importedfile'),
	(347, 'Can delete imported file', 87, 'delete_importedfile'),
	(348, 'Can view imported file', 87, 'view_importedfile'),
	(349, 'Can add ingestion log', 88, 'add_ingestionlog'),
	(350, 'Can change ingestion log', 88, 'change_ingestionlog'),
	(351, 'Can delete ingestion log', 88, 'delete_ingestionlog'),
	(352, 'Can view ingestion log', 88, 'view_ingestionlog'),
	(353, 'Can add hour count', 89, 'add_hourcount'),
	(354, 'Can change hour count', 89, 'change_hourcount'),
	(355, 'Can delete hour count', 89, 'delete_hourcount'),
	(356, 'Can view hour count', 89, 'view_hourcount'),
	(357, 'Can add claimed batch', 90, 'add_claimedbatch'),
	(358, 'Can change claimed batch', 90, 'change_claimedbatch'),
	(359, 'Can delete claimed batch', 90, 'delete_claimedbatch'),
	(360, 'Can view claimed batch', 90, 'view_claimedbatch'),
	(361, 'Can add recent message', 91, 'add_recentmessage'),
	(362, 'Can change recent message', 91, 'change_recentmessage'),
	(363, 'Can delete recent message', 91, 'delete_recentmessage'),
	(364, 'Can view recent message', 91, 'view_recentmessage'),
	(365, 'Can add refused count', 92, 'add_refusedcount'),
	(366, 'Can change refused count', 92, 'change_refusedcount'),
	(367, 'Can delete refused count', 92, 'delete_refusedcount'),
	(368, 'Can view refused count', 92, 'view_refusedcount'),
	(369, 'Can add refused request', 93, 'add_refusedrequest'),
	(370, 'Can change refused request', 93, 'change_refusedrequest'),
	(371, 'Can delete refused request', 93, 'delete_refusedrequest'),
	(372, 'Can view refused request', 93, 'view_refusedrequest'),
	(373, 'Can add minute count', 94, 'add_minutecount'),
	(374, 'Can change minute count', 94, 'change_minutecount'),
	(375, 'Can delete minute count', 94, 'delete_minutecount'),
	(376, 'Can view minute count', 94, 'view_minutecount'),
	(377, 'Can add forget key', 95, 'add_forgetkey'),
	(378, 'Can change forget key', 95, 'change_forgetkey'),
	(379, 'Can delete forget key', 95, 'delete_forgetkey'),
	(380, 'Can view forget key', 95, 'view_forgetkey'),
	(381, 'Can add read token', 96, 'add_apitoken'),
	(382, 'Can change read token', 96, 'change_apitoken'),
	(383, 'Can delete read token', 96, 'delete_apitoken'),
	(384, 'Can view read token', 96, 'view_apitoken'),
	(385, 'Can add usage', 97, 'add_usage'),
	(386, 'Can change usage', 97, 'change_usage'),
	(387, 'Can delete usage', 97, 'delete_usage'),
	(388, 'Can view usage', 97, 'view_usage'),
	(389, 'Can add marketplace connection', 98, 'add_connection'),
	(390, 'Can change marketplace connection', 98, 'change_connection'),
	(391, 'Can delete marketplace connection', 98, 'delete_connection'),
	(392, 'Can view marketplace connection', 98, 'view_connection'),
	(393, 'Can add license', 99, 'add_license'),
	(394, 'Can change license', 99, 'change_license'),
	(395, 'Can delete license', 99, 'delete_license'),
	(396, 'Can view license', 99, 'view_license'),
	(397, 'Can add sync', 100, 'add_syncrun'),
	(400, 'Can view sync', 100, 'view_syncrun'),
	(401, 'Can add failed record', 101, 'add_failedrecord'),
	(402, 'Can change failed record', 101, 'change_failedrecord'),
	(403, 'Can delete failed record', 101, 'delete_failedrecord'),
	(404, 'Can view failed record', 101, 'view_failedrecord'),
	(405, 'Can add seen licenses', 102, 'add_seenlicenses'),
	(406, 'Can change seen licenses', 102, 'change_seenlicenses'),
	(407, 'Can delete seen licenses', 102, 'delete_seenlicenses'),
	(408, 'Can view seen licenses', 102, 'view_seenlicenses'),
	(409, 'Can add pending license', 103, 'add_pendinglicense'),
	(410, 'Can change pending license', 103, 'change_pendinglicense'),
	(411, 'Can delete pending license', 103, 'delete_pendinglicense'),
	(412, 'Can view pending license', 103, 'view_pendinglicense'),
	(413, 'Can add ledger', 104, 'add_ledger'),
	(414, 'Can change ledger', 104, 'change_ledger'),
	(415, 'Can delete ledger', 104, 'delete_ledger'),
	(416, 'Can view ledger', 104, 'view_ledger'),
	(417, 'Can add feedback', 105, 'add_feedback'),
	(418, 'Can change feedback', 105, 'change_feedback'),
	(419, 'Can delete feedback', 105, 'delete_feedback'),
	(420, 'Can view feedback', 105, 'view_feedback'),
	(421, 'Can add ledger license', 106, 'add_ledgerlicense'),
	(422, 'Can change ledger license', 106, 'change_ledgerlicense'),
	(423, 'Can delete ledger license', 106, 'delete_ledgerlicense'),
	(424, 'Can view ledger license', 106, 'view_ledgerlicense'),
	(425, 'Can add license alias', 107, 'add_licensealias'),
	(426, 'Can change license alias', 107, 'change_licensealias'),
	(427, 'Can delete license alias', 107, 'delete_licensealias'),
	(428, 'Can view license alias', 107, 'view_licensealias'),
	(429, 'Can add license event', 108, 'add_licenseevent'),
	(430, 'Can change license event', 108, 'change_licenseevent'),
	(431, 'Can delete license event', 108, 'delete_licenseevent'),
	(432, 'Can view license event', 108, 'view_licenseevent'),
	(433, 'Can add observation', 109, 'add_observation'),
	(434, 'Can change observation', 109, 'change_observation'),
	(435, 'Can delete observation', 109, 'delete_observation'),
	(436, 'Can view observation', 109, 'view_observation'),
	(437, 'Can add transaction', 110, 'add_transaction'),
	(438, 'Can change transaction', 110, 'change_transaction'),
	(439, 'Can delete transaction', 110, 'delete_transaction'),
	(440, 'Can view transaction', 110, 'view_transaction'),
	(441, 'Can add report reading', 111, 'add_reportreading'),
	(442, 'Can change report reading', 111, 'change_reportreading'),
	(443, 'Can delete report reading', 111, 'delete_reportreading'),
	(444, 'Can view report reading', 111, 'view_reportreading'),
	(445, 'Can add metric event', 112, 'add_metricevent'),
	(446, 'Can change metric event', 112, 'change_metricevent'),
	(447, 'Can delete metric event', 112, 'delete_metricevent'),
	(448, 'Can view metric event', 112, 'view_metricevent'),
	(449, 'Can add destination', 113, 'add_destination'),
	(450, 'Can change destination', 113, 'change_destination'),
	(451, 'Can delete destination', 113, 'delete_destination'),
	(452, 'Can view destination', 113, 'view_destination'),
	(453, 'Can add notification', 114, 'add_outboxmessage'),
	(454, 'Can change notification', 114, 'change_outboxmessage'),
	(455, 'Can delete notification', 114, 'delete_outboxmessage'),
	(456, 'Can view notification', 114, 'view_outboxmessage'),
	(457, 'Can add delivery', 115, 'add_delivery'),
	(458, 'Can change delivery', 115, 'change_delivery'),
	(459, 'Can delete delivery', 115, 'delete_delivery'),
	(460, 'Can view delivery', 115, 'view_delivery'),
	(461, 'Can add subscription', 116, 'add_subscription'),
	(462, 'Can change subscription', 116, 'change_subscription'),
	(463, 'Can delete subscription', 116, 'delete_subscription'),
	(464, 'Can view subscription', 116, 'view_subscription'),
	(465, 'Can add watch', 117, 'add_watch'),
	(466, 'Can change watch', 117, 'change_watch'),
	(467, 'Can delete watch', 117, 'delete_watch'),
	(468, 'Can view watch', 117, 'view_watch'),
	(469, 'Can add watched member', 118, 'add_watchedmember'),
	(470, 'Can change watched member', 118, 'change_watchedmember'),
	(471, 'Can delete watched member', 118, 'delete_watchedmember'),
	(472, 'Can view watched member', 118, 'view_watchedmember'),
	(473, 'Can add digest', 119, 'add_digest'),
	(474, 'Can change digest', 119, 'change_digest'),
	(475, 'Can delete digest', 119, 'delete_digest'),
	(476, 'Can view digest', 119, 'view_digest'),
	(477, 'Can add digest issue', 120, 'add_digestissue'),
	(478, 'Can change digest issue', 120, 'change_digestissue'),
	(479, 'Can delete digest issue', 120, 'delete_digestissue'),
	(480, 'Can view digest issue', 120, 'view_digestissue'),
	(481, 'Can add scheduled export', 121, 'add_scheduledexport'),
	(482, 'Can change scheduled export', 121, 'change_scheduledexport'),
	(483, 'Can delete scheduled export', 121, 'delete_scheduledexport'),
	(484, 'Can view scheduled export', 121, 'view_scheduledexport'),
	(485, 'Can add export run', 122, 'add_exportrun'),
	(486, 'Can change export run', 122, 'change_exportrun'),
	(487, 'Can delete export run', 122, 'delete_exportrun'),
	(488, 'Can view export run', 122, 'view_exportrun'),
	(489, 'Can add export file', 123, 'add_exportfile'),
	(490, 'Can change export file', 123, 'change_exportfile'),
	(491, 'Can delete export file', 123, 'delete_exportfile'),
	(492, 'Can view export file', 123, 'view_exportfile'),
	(493, 'Can add CRM', 124, 'add_recorddestination'),
	(494, 'Can change CRM', 124, 'change_recorddestination'),
	(495, 'Can delete CRM', 124, 'delete_recorddestination'),
	(496, 'Can view CRM', 124, 'view_recorddestination'),
	(497, 'Can add record link', 125, 'add_recordlink'),
	(498, 'Can change record link', 125, 'change_recordlink'),
	(499, 'Can delete record link', 125, 'delete_recordlink'),
	(500, 'Can view record link', 125, 'view_recordlink'),
	(501, 'Can add record run', 126, 'add_recordrun'),
	(502, 'Can change record run', 126, 'change_recordrun'),
	(503, 'Can delete record run', 126, 'delete_recordrun'),
	(504, 'Can view record run', 126, 'view_recordrun'),
	(505, 'Can add license revision', 127, 'add_licenserevision'),
	(506, 'Can change license revision', 127, 'change_licenserevision'),
	(507, 'Can delete license revision', 127, 'delete_licenserevision'),
	(508, 'Can view license revision', 127, 'view_licenserevision'),
	(509, 'Can add license outcome', 128, 'add_licenseoutcome'),
	(510, 'Can change license outcome', 128, 'change_licenseoutcome'),
	(511, 'Can delete license outcome', 128, 'delete_licenseoutcome'),
	(512, 'Can view license outcome', 128, 'view_licenseoutcome'),
	(513, 'Can add stored backtest', 129, 'add_storedbacktest'),
	(514, 'Can change stored backtest', 129, 'change_storedbacktest'),
	(515, 'Can delete stored backtest', 129, 'delete_storedbacktest'),
	(516, 'Can view stored backtest', 129, 'view_storedbacktest'),
	(517, 'Can add chance model', 130, 'add_chancemodel'),
	(518, 'Can change chance model', 130, 'change_chancemodel'),
	(519, 'Can delete chance model', 130, 'delete_chancemodel'),
	(520, 'Can view chance model', 130, 'view_chancemodel'),
	(521, 'Can add stored forecast', 131, 'add_storedforecast'),
	(522, 'Can change stored forecast', 131, 'change_storedforecast'),
	(523, 'Can delete stored forecast', 131, 'delete_storedforecast'),
	(524, 'Can view stored forecast', 131, 'view_storedforecast'),
	(525, 'Can add chance look', 132, 'add_chancelook'),
	(526, 'Can change chance look', 132, 'change_chancelook'),
	(527, 'Can delete chance look', 132, 'delete_chancelook'),
	(528, 'Can view chance look', 132, 'view_chancelook'),
	(529, 'Can add segment roster', 133, 'add_segmentroster'),
	(530, 'Can change segment roster', 133, 'change_segmentroster'),
	(531, 'Can delete segment roster', 133, 'delete_segmentroster'),
	(532, 'Can view segment roster', 133, 'view_segmentroster'),
	(533, 'Can add day figures', 134, 'add_dayfigures'),
	(534, 'Can change day figures', 134, 'change_dayfigures'),
	(535, 'Can delete day figures', 134, 'delete_dayfigures'),
	(536, 'Can view day figures', 134, 'view_dayfigures'),
	(537, 'Can add segment move', 135, 'add_segmentmove'),
	(538, 'Can change segment move', 135, 'change_segmentmove'),
	(539, 'Can delete segment move', 135, 'delete_segmentmove'),
	(540, 'Can view segment move', 135, 'view_segmentmove'),
	(541, 'Can add usage day', 136, 'add_usageday'),
	(542, 'Can change usage day', 136, 'change_usageday'),
	(543, 'Can delete usage day', 136, 'delete_usageday'),
	(544, 'Can view usage day', 136, 'view_usageday'),
	(545, 'Can add stored cohorts', 137, 'add_storedcohorts'),
	(546, 'Can change stored cohorts', 137, 'change_storedcohorts'),
	(547, 'Can delete stored cohorts', 137, 'delete_storedcohorts'),
	(548, 'Can view stored cohorts', 137, 'view_storedcohorts'),
	(549, 'Can add stored changes', 138, 'add_storedchanges'),
	(550, 'Can change stored changes', 138, 'change_storedchanges'),
	(551, 'Can delete stored changes', 138, 'delete_storedchanges'),
	(552, 'Can view stored changes', 138, 'view_storedchanges');
INSERT INTO public.django_celery_beat_intervalschedule VALUES
	(1, 6, 'hours');
INSERT INTO public.django_celery_beat_periodictask VALUES
	(1, 'sync marketplace licenses', 'marketplace.tasks.sync_all', '[]', '{}', 'marketplace', NULL, NULL, NULL, true, now(), 0, now(), 'How often each marketplace connection syncs, counted from its own last sync. Syncs that are due start within a minute.', NULL, 1, NULL, false, NULL, NULL, '{}', NULL, NULL);
INSERT INTO public.django_celery_beat_periodictasks VALUES
	(1, now());
INSERT INTO public.django_content_type VALUES
	(1, 'admin', 'logentry'),
	(2, 'auth', 'permission'),
	(3, 'auth', 'group'),
	(4, 'auth', 'user'),
	(5, 'contenttypes', 'contenttype'),
	(6, 'sessions', 'session'),
	(7, 'django_celery_beat', 'crontabschedule'),
	(8, 'django_celery_beat', 'intervalschedule'),
	(9, 'django_celery_beat', 'periodictask'),
	(10, 'django_celery_beat', 'periodictasks'),
	(11, 'django_celery_beat', 'solarschedule'),
	(12, 'django_celery_beat', 'clockedschedule'),
	(13, 'core', 'job'),
	(14, 'engagement', 'product'),
	(15, 'engagement', 'eventname'),
	(16, 'engagement', 'account'),
	(17, 'engagement', 'productmember'),
	(18, 'engagement', 'user'),
	(19, 'engagement', 'membership'),
	(20, 'engagement', 'event'),
	(21, 'engagement', 'dailycount'),
	(22, 'engagement', 'workspace'),
	(23, 'engagement', 'eventweight'),
	(24, 'engagement', 'scoreset'),
	(25, 'engagement', 'scoredevent'),
	(26, 'engagement', 'dailybenchmark'),
	(27, 'engagement', 'accountengagement'),
	(28, 'engagement', 'userengagement'),
	(29, 'engagement', 'forgottensubject'),
	(30, 'engagement', 'segment'),
	(31, 'engagement', 'loginattempts'),
	(32, 'engagement', 'reattributionrequest'),
	(33, 'engagement', 'cachedcounts'),
	(34, 'engagement', 'rescorerequest'),
	(35, 'engagement', 'operationcounter'),
	(36, 'engagement', 'dailyjob'),
	(37, 'engagement', 'alias'),
	(38, 'engagement', 'joinrequest'),
	(39, 'engagement', 'searchbacklog'),
	(40, 'engagement', 'searchentry'),
	(41, 'engagement', 'storedorder'),
	(42, 'engagement', 'orderchunk'),
	(43, 'engagement', 'changestamp'),
	(44, 'engagement', 'subjectchange'),
	(45, 'engagement', 'invite'),
	(46, 'engagement', 'savedview'),
	(47, 'engagement', 'loginpreferences'),
	(48, 'engagement', 'trailentry'),
	(49, 'engagement', 'externalidentity'),
	(50, 'engagement', 'loginsession'),
	(51, 'engagement', 'recoverycode'),
	(52, 'engagement', 'rolegrant'),
	(53, 'engagement', 'secondfactor'),
	(54, 'engagement', 'productlimits'),
	(55, 'engagement', 'productusage'),
	(56, 'engagement', 'requestcount'),
	(57, 'engagement', 'traitname'),
	(58, 'engagement', 'turnedday'),
	(59, 'engagement', 'subjecttrace'),
	(60, 'engagement', 'editedrule'),
	(61, 'engagement', 'movedthreshold'),
	(62, 'engagement', 'provenaddress'),
	(63, 'engagement', 'partrequest'),
	(64, 'engagement', 'lateday'),
	(65, 'engagement', 'activeday'),
	(66, 'engagement', 'alarm'),
	(67, 'engagement', 'alarmnight'),
	(68, 'engagement', 'habitpart'),
	(69, 'engagement', 'traitchange'),
	(70, 'engagement', 'accountchance'),
	(71, 'engagement', 'usagestate'),
	(72, 'engagement', 'feature'),
	(73, 'engagement', 'lateuse'),
	(74, 'engagement', 'accountuse'),
	(75, 'engagement', 'accountnote'),
	(76, 'engagement', 'accountwork'),
	(77, 'engagement', 'alarmwork'),
	(78, 'engagement', 'activation'),
	(79, 'engagement', 'stepsdone'),
	(80, 'engagement', 'keptdefault'),
	(81, 'ingestion', 'inboxmessage'),
	(82, 'ingestion', 'ingestionkey'),
	(83, 'ingestion', 'quarantinedmessage'),
	(84, 'ingestion', 'dropcount'),
	(85, 'ingestion', 'droppedmessage'),
	(86, 'ingestion', 'seenmessageid'),
	(87, 'ingestion', 'importedfile'),
	(88, 'ingestion', 'ingestionlog'),
	(89, 'ingestion', 'hourcount'),
	(90, 'ingestion', 'claimedbatch'),
	(91, 'ingestion', 'recentmessage'),
	(92, 'ingestion', 'refusedcount'),
	(93, 'ingestion', 'refusedrequest'),
	(94, 'ingestion', 'minutecount'),
	(95, 'ingestion', 'forgetkey'),
	(96, 'readapi', 'apitoken'),
	(97, 'readapi', 'usage'),
	(98, 'marketplace', 'connection'),
	(99, 'marketplace', 'license'),
	(100, 'marketplace', 'syncrun'),
	(101, 'marketplace', 'failedrecord'),
	(102, 'marketplace', 'seenlicenses'),
	(103, 'marketplace', 'pendinglicense'),
	(104, 'marketplace', 'ledger'),
	(105, 'marketplace', 'feedback'),
	(106, 'marketplace', 'ledgerlicense'),
	(107, 'marketplace', 'licensealias'),
	(108, 'marketplace', 'licenseevent'),
	(109, 'marketplace', 'observation'),
	(110, 'marketplace', 'transaction'),
	(111, 'marketplace', 'reportreading'),
	(112, 'marketplace', 'metricevent'),
	(113, 'notifications', 'destination'),
	(114, 'notifications', 'outboxmessage'),
	(115, 'notifications', 'delivery'),
	(116, 'notifications', 'subscription'),
	(117, 'notifications', 'watch'),
	(118, 'notifications', 'watchedmember'),
	(119, 'notifications', 'digest'),
	(120, 'notifications', 'digestissue'),
	(121, 'exports', 'scheduledexport'),
	(122, 'exports', 'exportrun'),
	(123, 'exports', 'exportfile'),
	(124, 'destinations', 'recorddestination'),
	(125, 'destinations', 'recordlink'),
	(126, 'destinations', 'recordrun'),
	(127, 'outcomes', 'licenserevision'),
	(128, 'outcomes', 'licenseoutcome'),
	(129, 'outcomes', 'storedbacktest'),
	(130, 'outcomes', 'chancemodel'),
	(131, 'outcomes', 'storedforecast'),
	(132, 'outcomes', 'chancelook'),
	(133, 'trends', 'segmentroster'),
	(134, 'trends', 'dayfigures'),
	(135, 'trends', 'segmentmove'),
	(136, 'trends', 'usageday'),
	(137, 'trends', 'storedcohorts'),
	(138, 'trends', 'storedchanges');
INSERT INTO public.django_migrations VALUES
	(1, 'contenttypes', '0001_initial', now()),
	(2, 'auth', '0001_initial', now()),
	(3, 'admin', '0001_initial', now()),
	(4, 'admin', '0002_logentry_remove_auto_add', now()),
	(5, 'admin', '0003_logentry_add_action_flag_choices', now()),
	(6, 'contenttypes', '0002_remove_content_type_name', now()),
	(7, 'auth', '0002_alter_permission_name_max_length', now()),
	(8, 'auth', '0003_alter_user_email_max_length', now()),
	(9, 'auth', '0004_alter_user_username_opts', now()),
	(10, 'auth', '0005_alter_user_last_login_null', now()),
	(11, 'auth', '0006_require_contenttypes_0002', now()),
	(12, 'auth', '0007_alter_validators_add_error_messages', now()),
	(13, 'auth', '0008_alter_user_username_max_length', now()),
	(14, 'auth', '0009_alter_user_last_name_max_length', now()),
	(15, 'auth', '0010_alter_group_name_max_length', now()),
	(16, 'auth', '0011_update_proxy_permissions', now()),
	(17, 'auth', '0012_alter_user_first_name_max_length', now()),
	(18, 'core', '0001_background_jobs', now()),
	(19, 'core', '0002_leases_of_jobs', now()),
	(20, 'core', '0003_rests_of_jobs', now()),
	(21, 'engagement', '0001_initial', now()),
	(22, 'engagement', '0002_storage', now()),
	(23, 'engagement', '0003_score_sets', now()),
	(24, 'engagement', '0004_may_manage_connections', now()),
	(25, 'engagement', '0005_forgotten', now()),
	(26, 'engagement', '0006_segments', now()),
	(27, 'engagement', '0007_default_segments', now()),
	(28, 'engagement', '0008_measures', now()),
	(29, 'engagement', '0009_roles', now()),
	(30, 'engagement', '0010_login_attempts', now()),
	(31, 'engagement', '0011_event_by_receipt', now()),
	(32, 'engagement', '0012_segment_indexes', now()),
	(33, 'engagement', '0013_tallies', now()),
	(34, 'engagement', '0014_new_members_are_viewers', now()),
	(35, 'engagement', '0015_past_benchmarks', now()),
	(36, 'engagement', '0016_reattribution_requests', now()),
	(37, 'engagement', '0017_weights_from_0', now()),
	(38, 'engagement', '0018_event_name_done_by', now()),
	(39, 'engagement', '0019_score_set_formula', now()),
	(40, 'engagement', '0020_names', now()),
	(41, 'engagement', '0021_aliases', now()),
	(42, 'engagement', '0022_search', now()),
	(43, 'engagement', '0023_insight_numbers', now()),
	(44, 'engagement', '0024_stored_orders', now()),
	(45, 'engagement', '0025_subject_changes', now()),
	(46, 'engagement', '0026_watches_stale', now()),
	(47, 'engagement', '0027_invites', now()),
	(48, 'engagement', '0028_saved_views', now()),
	(49, 'engagement', '0029_login_preferences', now()),
	(50, 'engagement', '0030_cached_insights', now()),
	(51, 'engagement', '0031_formula_version', now()),
	(52, 'engagement', '0032_trail', now()),
	(53, 'engagement', '0033_sign_in', now()),
	(54, 'engagement', '0034_product_limits', now()),
	(55, 'engagement', '0035_request_counts', now()),
	(56, 'engagement', '0036_trait_names', now()),
	(57, 'engagement', '0037_stamps_without_scores', now()),
	(58, 'engagement', '0038_subject_traces', now()),
	(59, 'engagement', '0039_edited_rules', now()),
	(60, 'engagement', '0040_moved_thresholds', now()),
	(61, 'engagement', '0041_no_proxy_sign_on', now()),
	(62, 'engagement', '0042_proven_addresses', now()),
	(63, 'engagement', '0043_parted_ids', now()),
	(64, 'engagement', '0044_roles_in_plain_words', now()),
	(65, 'engagement', '0045_alarms', now()),
	(66, 'engagement', '0046_habit_parts', now()),
	(67, 'engagement', '0047_seats', now()),
	(68, 'engagement', '0048_late_days', now()),
	(69, 'engagement', '0049_complete_days', now()),
	(70, 'engagement', '0050_settled_alarms', now()),
	(71, 'engagement', '0051_half_life', now()),
	(72, 'engagement', '0052_trait_history', now()),
	(73, 'engagement', '0053_account_chances', now()),
	(74, 'engagement', '0054_undecided_accounts', now()),
	(75, 'engagement', '0055_alarms_by_day', now()),
	(76, 'engagement', '0056_figures_stale', now()),
	(77, 'engagement', '0057_features', now()),
	(78, 'destinations', '0001_record_destinations', now()),
	(79, 'destinations', '0002_salesforce', now()),
	(80, 'django_celery_beat', '0001_initial', now()),
	(81, 'django_celery_beat', '0002_auto_20161118_0346', now()),
	(82, 'django_celery_beat', '0003_auto_20161209_0049', now()),
	(83, 'django_celery_beat', '0004_auto_20170221_0000', now()),
	(84, 'django_celery_beat', '0005_add_solarschedule_events_choices', now()),
	(85, 'django_celery_beat', '0006_auto_20180322_0932', now()),
	(86, 'django_celery_beat', '0007_auto_20180521_0826', now()),
	(87, 'django_celery_beat', '0008_auto_20180914_1922', now()),
	(88, 'django_celery_beat', '0006_auto_20180210_1226', now()),
	(89, 'django_celery_beat', '0006_periodictask_priority', now()),
	(90, 'django_celery_beat', '0009_periodictask_headers', now()),
	(91, 'django_celery_beat', '0010_auto_20190429_0326', now()),
	(92, 'django_celery_beat', '0011_auto_20190508_0153', now()),
	(93, 'django_celery_beat', '0012_periodictask_expire_seconds', now()),
	(94, 'django_celery_beat', '0013_auto_20200609_0727', now()),
	(95, 'django_celery_beat', '0014_remove_clockedschedule_enabled', now()),
	(96, 'django_celery_beat', '0015_edit_solarschedule_events_choices', now()),
	(97, 'django_celery_beat', '0016_alter_crontabschedule_timezone', now()),
	(98, 'django_celery_beat', '0017_alter_crontabschedule_month_of_year', now()),
	(99, 'django_celery_beat', '0018_improve_crontab_helptext', now()),
	(100, 'django_celery_beat', '0019_alter_periodictasks_options', now()),
	(101, 'engagement', '0058_work', now()),
	(102, 'engagement', '0059_checklist', now()),
	(103, 'engagement', '0060_activation', now()),
	(104, 'engagement', '0061_one_index_of_requests', now()),
	(105, 'engagement', '0062_never_used', now()),
	(106, 'engagement', '0063_event_keys', now()),
	(107, 'engagement', '0064_kept_defaults', now()),
	(108, 'exports', '0001_scheduled_exports', now()),
	(109, 'exports', '0002_part_read_at', now()),
	(110, 'exports', '0003_license_events', now()),
	(111, 'exports', '0004_trends', now()),
	(112, 'exports', '0005_sources', now()),
	(113, 'exports', '0006_moves_and_usage', now()),
	(114, 'exports', '0007_postgres', now()),
	(115, 'exports', '0008_timelines_and_cohorts', now()),
	(116, 'ingestion', '0001_initial', now()),
	(117, 'ingestion', '0002_storage', now()),
	(118, 'ingestion', '0003_forgotten', now()),
	(119, 'ingestion', '0004_imported_file', now()),
	(120, 'ingestion', '0005_unusable_messages', now()),
	(121, 'ingestion', '0006_ingestion_log', now()),
	(122, 'ingestion', '0007_request_ids', now()),
	(123, 'ingestion', '0008_hour_counts', now()),
	(124, 'ingestion', '0009_too_many_traits', now()),
	(125, 'ingestion', '0010_claimed_batches', now()),
	(126, 'ingestion', '0011_alias_reason', now()),
	(127, 'ingestion', '0012_live_view_and_refused_requests', now()),
	(128, 'ingestion', '0013_words_of_outcomes', now()),
	(129, 'ingestion', '0014_key_expiry', now()),
	(130, 'ingestion', '0015_rate_limits', now()),
	(131, 'ingestion', '0016_words_of_trait_drops', now()),
	(132, 'ingestion', '0017_traces', now()),
	(133, 'ingestion', '0018_placeholders', now()),
	(134, 'ingestion', '0019_forget_keys', now()),
	(135, 'ingestion', '0020_left_out_lines', now()),
	(136, 'marketplace', '0001_initial', now()),
	(137, 'marketplace', '0002_pending_licenses', now()),
	(138, 'marketplace', '0003_lists_in_use', now()),
	(139, 'marketplace', '0004_names', now()),
	(140, 'marketplace', '0005_recent_fingerprints', now()),
	(141, 'marketplace', '0006_reports_and_unlisted_licenses', now()),
	(142, 'marketplace', '0007_encrypted_user_name', now()),
	(143, 'marketplace', '0008_token_expiry_and_staff_licenses', now()),
	(144, 'marketplace', '0009_license_ledger', now()),
	(145, 'marketplace', '0010_report_readings', now()),
	(146, 'marketplace', '0011_ledger_indexes', now()),
	(147, 'marketplace', '0012_license_event_order', now()),
	(148, 'marketplace', '0013_metric_events', now()),
	(149, 'notifications', '0001_initial', now()),
	(150, 'notifications', '0002_outbox_by_subject', now()),
	(151, 'notifications', '0003_credential_expiring', now()),
	(152, 'notifications', '0004_texts', now()),
	(153, 'notifications', '0005_traits_of_subscriptions', now()),
	(154, 'notifications', '0006_whole_product', now()),
	(155, 'notifications', '0007_license_events', now()),
	(156, 'notifications', '0008_forecast_falling', now()),
	(157, 'notifications', '0009_chances_low', now()),
	(158, 'notifications', '0010_digests', now()),
	(159, 'notifications', '0011_to_owner', now()),
	(160, 'notifications', '0012_activation', now()),
	(161, 'notifications', '0013_crm_failing', now()),
	(162, 'notifications', '0014_hooks', now()),
	(163, 'outcomes', '0001_license_outcomes', now()),
	(164, 'outcomes', '0002_backtests', now()),
	(165, 'outcomes', '0003_suggestions', now()),
	(166, 'outcomes', '0004_foresight', now()),
	(167, 'outcomes', '0005_chance_looks', now()),
	(168, 'outcomes', '0006_totals_of_chances', now()),
	(169, 'outcomes', '0007_earlier_seats', now()),
	(170, 'readapi', '0001_initial', now()),
	(171, 'readapi', '0002_usage', now()),
	(172, 'readapi', '0003_token_rights', now()),
	(173, 'readapi', '0004_read_token', now()),
	(174, 'readapi', '0005_hooks', now()),
	(175, 'sessions', '0001_initial', now()),
	(176, 'trends', '0001_figures', now()),
	(177, 'trends', '0002_usage', now()),
	(178, 'trends', '0003_cohorts', now()),
	(179, 'trends', '0004_changes', now());
SELECT pg_catalog.setval('public.auth_group_id_seq', 1, false);
SELECT pg_catalog.setval('public.auth_group_permissions_id_seq', 1, false);
SELECT pg_catalog.setval('public.auth_permission_id_seq', 552, true);
SELECT pg_catalog.setval('public.auth_user_groups_id_seq', 1, false);
SELECT pg_catalog.setval('public.auth_user_id_seq', 1, false);
SELECT pg_catalog.setval('public.auth_user_user_permissions_id_seq', 1, false);
SELECT pg_catalog.setval('public.core_job_id_seq', 1, false);
SELECT pg_catalog.setval('public.destinations_recorddestination_id_seq', 1, false);
SELECT pg_catalog.setval('public.destinations_recordlink_id_seq', 1, false);
SELECT pg_catalog.setval('public.destinations_recordrun_id_seq', 1, false);
SELECT pg_catalog.setval('public.django_admin_log_id_seq', 1, false);
SELECT pg_catalog.setval('public.django_celery_beat_clockedschedule_id_seq', 1, false);
SELECT pg_catalog.setval('public.django_celery_beat_crontabschedule_id_seq', 1, false);
SELECT pg_catalog.setval('public.django_celery_beat_intervalschedule_id_seq', 1, true);
SELECT pg_catalog.setval('public.django_celery_beat_periodictask_id_seq', 1, true);
SELECT pg_catalog.setval('public.django_celery_beat_solarschedule_id_seq', 1, false);
SELECT pg_catalog.setval('public.django_content_type_id_seq', 138, true);
SELECT pg_catalog.setval('public.django_migrations_id_seq', 179, true);
SELECT pg_catalog.setval('public.engagement_account_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_accountnote_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_activation_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_alarmnight_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_alias_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_arrival', 1, false);
SELECT pg_catalog.setval('public.engagement_editedrule_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_eventname_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_eventweight_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_externalidentity_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_feature_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_forgottensubject_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_habitpart_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_invite_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_joinrequest_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_movedthreshold_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_partrequest_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_product_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_productmember_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_reattributionrequest_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_recoverycode_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_rolegrant_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_savedview_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_scoreset_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_secondfactor_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_segment_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_stalemark_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_storedorder_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_trailentry_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_traitname_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_turnedday_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_user_id_seq', 1, false);
SELECT pg_catalog.setval('public.engagement_workspace_id_seq', 1, false);
SELECT pg_catalog.setval('public.exports_exportfile_id_seq', 1, false);
SELECT pg_catalog.setval('public.exports_exportrun_id_seq', 1, false);
SELECT pg_catalog.setval('public.exports_scheduledexport_id_seq', 1, false);
SELECT pg_catalog.setval('public.ingestion_claimedbatch_id_seq', 1, false);
SELECT pg_catalog.setval('public.ingestion_dropcount_id_seq', 1, false);
SELECT pg_catalog.setval('public.ingestion_forgetkey_id_seq', 1, false);
SELECT pg_catalog.setval('public.ingestion_importedfile_id_seq', 1, false);
SELECT pg_catalog.setval('public.ingestion_ingestionkey_id_seq', 1, false);
SELECT pg_catalog.setval('public.ingestion_refusedrequest_id_seq', 1, false);
SELECT pg_catalog.setval('public.marketplace_connection_id_seq', 1, false);
SELECT pg_catalog.setval('public.marketplace_failedrecord_id_seq', 1, false);
SELECT pg_catalog.setval('public.marketplace_pendinglicense_id_seq', 1, false);
SELECT pg_catalog.setval('public.marketplace_reportreading_id_seq', 1, false);
SELECT pg_catalog.setval('public.marketplace_seenlicenses_id_seq', 1, false);
SELECT pg_catalog.setval('public.marketplace_syncrun_id_seq', 1, false);
SELECT pg_catalog.setval('public.notifications_delivery_id_seq', 1, false);
SELECT pg_catalog.setval('public.notifications_destination_id_seq', 1, false);
SELECT pg_catalog.setval('public.notifications_digest_id_seq', 1, false);
SELECT pg_catalog.setval('public.notifications_outboxmessage_id_seq', 1, false);
SELECT pg_catalog.setval('public.notifications_subscription_id_seq', 1, false);
SELECT pg_catalog.setval('public.notifications_watch_id_seq', 1, false);
SELECT pg_catalog.setval('public.outcomes_chancemodel_id_seq', 1, false);
SELECT pg_catalog.setval('public.outcomes_storedbacktest_id_seq', 1, false);
SELECT pg_catalog.setval('public.outcomes_storedforecast_id_seq', 1, false);
SELECT pg_catalog.setval('public.readapi_apitoken_id_seq', 1, false);
SELECT pg_catalog.setval('public.trends_storedchanges_id_seq', 1, false);
SELECT pg_catalog.setval('public.trends_storedcohorts_id_seq', 1, false);
ALTER TABLE ONLY public.engagement_account
    ADD CONSTRAINT account_external_id_per_product UNIQUE (product_id, external_id);
ALTER TABLE ONLY public.auth_group
    ADD CONSTRAINT auth_group_name_key UNIQUE (name);
ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_group_id_permission_id_0cd325b0_uniq UNIQUE (group_id, permission_id);
ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_group
    ADD CONSTRAINT auth_group_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_content_type_id_codename_01ab375a_uniq UNIQUE (content_type_id, codename);
ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_user_groups
    ADD CONSTRAINT auth_user_groups_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_user_groups
    ADD CONSTRAINT auth_user_groups_user_id_group_id_94350c0c_uniq UNIQUE (user_id, group_id);
ALTER TABLE ONLY public.auth_user
    ADD CONSTRAINT auth_user_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_user_user_permissions
    ADD CONSTRAINT auth_user_user_permissions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_user_user_permissions
    ADD CONSTRAINT auth_user_user_permissions_user_id_permission_id_14a6b632_uniq UNIQUE (user_id, permission_id);
ALTER TABLE ONLY public.auth_user
    ADD CONSTRAINT auth_user_username_key UNIQUE (username);
ALTER TABLE ONLY public.trends_storedchanges
    ADD CONSTRAINT changes_once_per_segment UNIQUE NULLS NOT DISTINCT (workspace_id, segment_id);
ALTER TABLE ONLY public.trends_storedcohorts
    ADD CONSTRAINT cohorts_once_per_question UNIQUE (workspace_id, scope, event_name_id, trait);
ALTER TABLE ONLY public.core_job
    ADD CONSTRAINT core_job_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.notifications_destination
    ADD CONSTRAINT destination_name_per_product UNIQUE (product_id, name);
ALTER TABLE ONLY public.destinations_recorddestination
    ADD CONSTRAINT destinations_recorddestination_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.destinations_recordlink
    ADD CONSTRAINT destinations_recordlink_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.destinations_recordrun
    ADD CONSTRAINT destinations_recordrun_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_admin_log
    ADD CONSTRAINT django_admin_log_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_celery_beat_clockedschedule
    ADD CONSTRAINT django_celery_beat_clockedschedule_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_celery_beat_crontabschedule
    ADD CONSTRAINT django_celery_beat_crontabschedule_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_celery_beat_intervalschedule
    ADD CONSTRAINT django_celery_beat_intervalschedule_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_celery_beat_periodictask
    ADD CONSTRAINT django_celery_beat_periodictask_name_key UNIQUE (name);
ALTER TABLE ONLY public.django_celery_beat_periodictask
    ADD CONSTRAINT django_celery_beat_periodictask_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_celery_beat_periodictasks
    ADD CONSTRAINT django_celery_beat_periodictasks_pkey PRIMARY KEY (ident);
ALTER TABLE ONLY public.django_celery_beat_solarschedule
    ADD CONSTRAINT django_celery_beat_solar_event_latitude_longitude_ba64999a_uniq UNIQUE (event, latitude, longitude);
ALTER TABLE ONLY public.django_celery_beat_solarschedule
    ADD CONSTRAINT django_celery_beat_solarschedule_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_content_type
    ADD CONSTRAINT django_content_type_app_label_model_76bd3d3b_uniq UNIQUE (app_label, model);
ALTER TABLE ONLY public.django_content_type
    ADD CONSTRAINT django_content_type_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_migrations
    ADD CONSTRAINT django_migrations_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_session
    ADD CONSTRAINT django_session_pkey PRIMARY KEY (session_key);
ALTER TABLE ONLY public.engagement_account
    ADD CONSTRAINT engagement_account_pkey PRIMARY KEY (id, product_id);
ALTER TABLE ONLY public.engagement_accountchance
    ADD CONSTRAINT engagement_accountchance_pkey PRIMARY KEY (product_id, workspace_id, account_id, kind, license);
ALTER TABLE ONLY public.engagement_accountengagement
    ADD CONSTRAINT engagement_accountengagement_pkey PRIMARY KEY (product_id, score_set_id, account_id);
ALTER TABLE ONLY public.engagement_accountnote
    ADD CONSTRAINT engagement_accountnote_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.engagement_accountuse
    ADD CONSTRAINT engagement_accountuse_pkey PRIMARY KEY (product_id, account_id, event_name_id);
ALTER TABLE ONLY public.engagement_accountwork
    ADD CONSTRAINT engagement_accountwork_pkey PRIMARY KEY (product_id, account_id);
ALTER TABLE ONLY public.engagement_activation
    ADD CONSTRAINT engagement_activation_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.engagement_activeday
    ADD CONSTRAINT engagement_activeday_pkey PRIMARY KEY (product_id, score_set_id, account_id, day);
ALTER TABLE ONLY public.engagement_alarm
    ADD CONSTRAINT engagement_alarm_pkey PRIMARY KEY (product_id, workspace_id, account_id, signal, level, since);
ALTER TABLE ONLY public.engagement_alarmnight
    ADD CONSTRAINT engagement_alarmnight_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.engagement_alarmwork
    ADD CONSTRAINT engagement_alarmwork_pkey PRIMARY KEY (product_id, workspace_id, account_id, signal, since);
ALTER TABLE ONLY public.engagement_alias
    ADD CONSTRAINT engagement_alias_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.engagement_changestamp
    ADD CONSTRAINT engagement_changestamp_pkey PRIMARY KEY (product_id);
ALTER TABLE ONLY public.engagement_chore
    ADD CONSTRAINT engagement_chore_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.engagement_dailybenchmark
    ADD CONSTRAINT engagement_dailybenchmark_pkey PRIMARY KEY (score_set_id, day);
ALTER TABLE ONLY public.engagement_dailycount
    ADD CONSTRAINT engagement_dailycount_pkey PRIMARY KEY (product_id, user_id, day, event_name_id, account_id);
ALTER TABLE ONLY public.engagement_editedrule
    ADD CONSTRAINT engagement_editedrule_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.engagement_event_default
    ADD CONSTRAINT engagement_event_default_pkey PRIMARY KEY (product_id, user_id, occurred_at, arrival);
ALTER TABLE ONLY public.engagement_eventname
    ADD CONSTRAINT engagement_eventname_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.engagement_eventweight
    ADD CONSTRAINT engagement_eventweight_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.engagement_externalidentity
    ADD CONSTRAINT engagement_externalidentity_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.engagement_feature
    ADD CONSTRAINT engagement_feature_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.engagement_forgottensubject
    ADD CONSTRAINT engagement_forgottensubject_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.engagement_habitpart
    ADD CONSTRAINT engagement_habitpart_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.engagement_invite
    ADD CONSTRAINT engagement_invite_digest_key UNIQUE (digest);
ALTER TABLE ONLY public.engagement_invite
    ADD CONSTRAINT engagement_invite_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.engagement_joinrequest
    ADD CONSTRAINT engagement_joinrequest_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.engagement_keptdefault
    ADD CONSTRAINT engagement_keptdefault_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.engagement_lateday
    ADD CONSTRAINT engagement_lateday_pkey PRIMARY KEY (product_id, score_set_id, account_id);
ALTER TABLE ONLY public.engagement_lateuse
    ADD CONSTRAINT engagement_lateuse_pkey PRIMARY KEY (product_id, account_id);
ALTER TABLE ONLY public.engagement_loginattempts
    ADD CONSTRAINT engagement_loginattempts_pkey PRIMARY KEY (subject);
ALTER TABLE ONLY public.engagement_loginpreferences
    ADD CONSTRAINT engagement_loginpreferences_pkey PRIMARY KEY (user_id);
ALTER TABLE ONLY public.engagement_loginsession
    ADD CONSTRAINT engagement_loginsession_pkey PRIMARY KEY (digest);
ALTER TABLE ONLY public.engagement_measure
    ADD CONSTRAINT engagement_measure_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.engagement_membership
    ADD CONSTRAINT engagement_membership_pkey PRIMARY KEY (product_id, user_id, occurred_at, account_id);
ALTER TABLE ONLY public.engagement_movedthreshold
    ADD CONSTRAINT engagement_movedthreshold_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.engagement_orderchunk
    ADD CONSTRAINT engagement_orderchunk_pkey PRIMARY KEY (product_id, order_id, version, number);
ALTER TABLE ONLY public.engagement_partrequest
    ADD CONSTRAINT engagement_partrequest_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.engagement_product
    ADD CONSTRAINT engagement_product_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.engagement_productlimits
    ADD CONSTRAINT engagement_productlimits_pkey PRIMARY KEY (product_id);
ALTER TABLE ONLY public.engagement_productmember
    ADD CONSTRAINT engagement_productmember_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.engagement_productusage
    ADD CONSTRAINT engagement_productusage_pkey PRIMARY KEY (product_id);
ALTER TABLE ONLY public.engagement_provenaddress
    ADD CONSTRAINT engagement_provenaddress_email_key UNIQUE (email);
ALTER TABLE ONLY public.engagement_provenaddress
    ADD CONSTRAINT engagement_provenaddress_pkey PRIMARY KEY (user_id);
ALTER TABLE ONLY public.engagement_reattributionrequest
    ADD CONSTRAINT engagement_reattributionrequest_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.engagement_recoverycode
    ADD CONSTRAINT engagement_recoverycode_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.engagement_requestcount
    ADD CONSTRAINT engagement_requestcount_pkey PRIMARY KEY (endpoint, status, code, bucket);
ALTER TABLE ONLY public.engagement_rolegrant
    ADD CONSTRAINT engagement_rolegrant_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.engagement_savedview
    ADD CONSTRAINT engagement_savedview_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.engagement_scoredevent
    ADD CONSTRAINT engagement_scoredevent_pkey PRIMARY KEY (score_set_id, event_name_id);
ALTER TABLE ONLY public.engagement_scoreset
    ADD CONSTRAINT engagement_scoreset_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.engagement_searchbacklog
    ADD CONSTRAINT engagement_searchbacklog_pkey PRIMARY KEY (product_id, kind);
ALTER TABLE ONLY public.engagement_searchentry
    ADD CONSTRAINT engagement_searchentry_pkey PRIMARY KEY (product_id, kind, subject_id);
ALTER TABLE ONLY public.engagement_secondfactor
    ADD CONSTRAINT engagement_secondfactor_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.engagement_segment
    ADD CONSTRAINT engagement_segment_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.engagement_stalemark
    ADD CONSTRAINT engagement_stalemark_pkey PRIMARY KEY (product_id, id);
ALTER TABLE ONLY public.engagement_stepsdone
    ADD CONSTRAINT engagement_stepsdone_pkey PRIMARY KEY (product_id, activation_id, subject_id);
ALTER TABLE ONLY public.engagement_storedorder
    ADD CONSTRAINT engagement_storedorder_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.engagement_subjectchange
    ADD CONSTRAINT engagement_subjectchange_pkey PRIMARY KEY (product_id, kind, subject_id);
ALTER TABLE ONLY public.engagement_subjecttrace
    ADD CONSTRAINT engagement_subjecttrace_pkey PRIMARY KEY (product_id, scope, subject_id);
ALTER TABLE ONLY public.engagement_tally
    ADD CONSTRAINT engagement_tally_pkey PRIMARY KEY (score_set_id);
ALTER TABLE ONLY public.engagement_trailentry
    ADD CONSTRAINT engagement_trailentry_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.engagement_traitchange
    ADD CONSTRAINT engagement_traitchange_pkey PRIMARY KEY (product_id, account_id, name, day);
ALTER TABLE ONLY public.engagement_traitname
    ADD CONSTRAINT engagement_traitname_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.engagement_turnedday
    ADD CONSTRAINT engagement_turnedday_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.engagement_usagestate
    ADD CONSTRAINT engagement_usagestate_pkey PRIMARY KEY (product_id);
ALTER TABLE ONLY public.engagement_user
    ADD CONSTRAINT engagement_user_pkey PRIMARY KEY (id, product_id);
ALTER TABLE ONLY public.engagement_userengagement
    ADD CONSTRAINT engagement_userengagement_pkey PRIMARY KEY (product_id, score_set_id, user_id);
ALTER TABLE ONLY public.engagement_workspace
    ADD CONSTRAINT engagement_workspace_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.engagement_workspace
    ADD CONSTRAINT engagement_workspace_scores_id_key UNIQUE (scores_id);
ALTER TABLE ONLY public.engagement_eventname
    ADD CONSTRAINT event_name_per_product UNIQUE (product_id, name);
ALTER TABLE ONLY public.exports_scheduledexport
    ADD CONSTRAINT export_name_per_product UNIQUE (product_id, name);
ALTER TABLE ONLY public.exports_exportfile
    ADD CONSTRAINT exports_exportfile_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.exports_exportrun
    ADD CONSTRAINT exports_exportrun_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.exports_scheduledexport
    ADD CONSTRAINT exports_scheduledexport_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.engagement_feature
    ADD CONSTRAINT feature_name_per_product UNIQUE (product_id, name);
ALTER TABLE ONLY public.ingestion_claimedbatch
    ADD CONSTRAINT ingestion_claimedbatch_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.ingestion_dropcount
    ADD CONSTRAINT ingestion_dropcount_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.ingestion_droppedmessage
    ADD CONSTRAINT ingestion_droppedmessage_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.ingestion_forgetkey
    ADD CONSTRAINT ingestion_forgetkey_digest_key UNIQUE (digest);
ALTER TABLE ONLY public.ingestion_forgetkey
    ADD CONSTRAINT ingestion_forgetkey_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.ingestion_hourcount
    ADD CONSTRAINT ingestion_hourcount_pkey PRIMARY KEY (product_id, hour, reason);
ALTER TABLE ONLY public.ingestion_importedfile
    ADD CONSTRAINT ingestion_importedfile_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.ingestion_inboxmessage
    ADD CONSTRAINT ingestion_inboxmessage_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.ingestion_ingestionkey
    ADD CONSTRAINT ingestion_ingestionkey_digest_key UNIQUE (digest);
ALTER TABLE ONLY public.ingestion_ingestionkey
    ADD CONSTRAINT ingestion_ingestionkey_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.ingestion_minutecount
    ADD CONSTRAINT ingestion_minutecount_pkey PRIMARY KEY (product_id, minute);
ALTER TABLE ONLY public.ingestion_quarantinedmessage
    ADD CONSTRAINT ingestion_quarantinedmessage_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.ingestion_recentmessage
    ADD CONSTRAINT ingestion_recentmessage_pkey PRIMARY KEY (product_id, kind, slot);
ALTER TABLE ONLY public.ingestion_refusedcount
    ADD CONSTRAINT ingestion_refusedcount_pkey PRIMARY KEY (product_id, hour, code);
ALTER TABLE ONLY public.ingestion_refusedrequest
    ADD CONSTRAINT ingestion_refusedrequest_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.ingestion_seenmessageid
    ADD CONSTRAINT ingestion_seenmessageid_pkey PRIMARY KEY (product_id, message_id);
ALTER TABLE ONLY public.marketplace_connection
    ADD CONSTRAINT marketplace_connection_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.marketplace_connection
    ADD CONSTRAINT marketplace_connection_product_id_key UNIQUE (product_id);
ALTER TABLE ONLY public.marketplace_failedrecord
    ADD CONSTRAINT marketplace_failedrecord_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.marketplace_feedback
    ADD CONSTRAINT marketplace_feedback_pkey PRIMARY KEY (product_id, digest);
ALTER TABLE ONLY public.marketplace_ledger
    ADD CONSTRAINT marketplace_ledger_pkey PRIMARY KEY (product_id);
ALTER TABLE ONLY public.marketplace_ledgerlicense
    ADD CONSTRAINT marketplace_ledgerlicense_pkey PRIMARY KEY (product_id, license);
ALTER TABLE ONLY public.marketplace_license
    ADD CONSTRAINT marketplace_license_pkey PRIMARY KEY (product_id, key);
ALTER TABLE ONLY public.marketplace_licensealias
    ADD CONSTRAINT marketplace_licensealias_pkey PRIMARY KEY (product_id, name);
ALTER TABLE ONLY public.marketplace_licenseevent
    ADD CONSTRAINT marketplace_licenseevent_pkey PRIMARY KEY (product_id, license, type, anchor);
ALTER TABLE ONLY public.marketplace_metricevent
    ADD CONSTRAINT marketplace_metricevent_pkey PRIMARY KEY (product_id, metric, date, name);
ALTER TABLE ONLY public.marketplace_observation
    ADD CONSTRAINT marketplace_observation_pkey PRIMARY KEY (product_id, license, as_of, digest);
ALTER TABLE ONLY public.marketplace_pendinglicense
    ADD CONSTRAINT marketplace_pendinglicense_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.marketplace_reportreading
    ADD CONSTRAINT marketplace_reportreading_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.marketplace_seenlicenses
    ADD CONSTRAINT marketplace_seenlicenses_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.marketplace_syncrun
    ADD CONSTRAINT marketplace_syncrun_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.marketplace_transaction
    ADD CONSTRAINT marketplace_transaction_pkey PRIMARY KEY (product_id, transaction_id, line_item_id);
ALTER TABLE ONLY public.notifications_delivery
    ADD CONSTRAINT notifications_delivery_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.notifications_destination
    ADD CONSTRAINT notifications_destination_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.notifications_digest
    ADD CONSTRAINT notifications_digest_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.notifications_digestissue
    ADD CONSTRAINT notifications_digestissue_pkey PRIMARY KEY (digest_id, cadence, day);
ALTER TABLE ONLY public.notifications_outboxmessage
    ADD CONSTRAINT notifications_outboxmessage_message_id_key UNIQUE (message_id);
ALTER TABLE ONLY public.notifications_outboxmessage
    ADD CONSTRAINT notifications_outboxmessage_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.notifications_subscription
    ADD CONSTRAINT notifications_subscription_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.notifications_watch
    ADD CONSTRAINT notifications_watch_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.notifications_watchedmember
    ADD CONSTRAINT notifications_watchedmember_pkey PRIMARY KEY (product_id, watch_id, subject_id);
ALTER TABLE ONLY public.outcomes_storedbacktest
    ADD CONSTRAINT one_backtest_of_a_kind UNIQUE NULLS NOT DISTINCT (workspace_id, kind, segment_id);
ALTER TABLE ONLY public.ingestion_dropcount
    ADD CONSTRAINT one_drop_count UNIQUE NULLS NOT DISTINCT (product_id, day, reason);
ALTER TABLE ONLY public.exports_exportfile
    ADD CONSTRAINT one_export_file_per_name UNIQUE (run_id, name);
ALTER TABLE ONLY public.outcomes_storedforecast
    ADD CONSTRAINT one_forecast_of_a_kind_a_day UNIQUE (workspace_id, kind, stays, made_on);
ALTER TABLE ONLY public.engagement_rolegrant
    ADD CONSTRAINT one_grant_per_product UNIQUE NULLS NOT DISTINCT (user_id, product_id);
ALTER TABLE ONLY public.ingestion_importedfile
    ADD CONSTRAINT one_import_per_file UNIQUE (product_id, digest);
ALTER TABLE ONLY public.engagement_externalidentity
    ADD CONSTRAINT one_login_per_identity UNIQUE (issuer, subject);
ALTER TABLE ONLY public.engagement_productmember
    ADD CONSTRAINT one_membership_per_product UNIQUE (product_id, user_id);
ALTER TABLE ONLY public.engagement_alarmnight
    ADD CONSTRAINT one_night_per_workspace UNIQUE (workspace_id, day);
ALTER TABLE ONLY public.notifications_destination
    ADD CONSTRAINT one_own_destination_per_product UNIQUE (product_id, owner_id);
ALTER TABLE ONLY public.marketplace_reportreading
    ADD CONSTRAINT one_reading_of_report UNIQUE (connection_id, report);
ALTER TABLE ONLY public.destinations_recordlink
    ADD CONSTRAINT one_record_link_of_a_subject UNIQUE (destination_id, subject_id);
ALTER TABLE ONLY public.engagement_recoverycode
    ADD CONSTRAINT one_row_per_recovery_code UNIQUE (user_id, digest);
ALTER TABLE ONLY public.engagement_eventweight
    ADD CONSTRAINT one_weight_per_event_name UNIQUE (workspace_id, event_name_id);
ALTER TABLE ONLY public.outcomes_chancelook
    ADD CONSTRAINT outcomes_chancelook_pkey PRIMARY KEY (workspace_id);
ALTER TABLE ONLY public.outcomes_chancemodel
    ADD CONSTRAINT outcomes_chancemodel_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.outcomes_licenseoutcome
    ADD CONSTRAINT outcomes_licenseoutcome_pkey PRIMARY KEY (product_id, license, kind, day);
ALTER TABLE ONLY public.outcomes_licenserevision
    ADD CONSTRAINT outcomes_licenserevision_pkey PRIMARY KEY (product_id);
ALTER TABLE ONLY public.outcomes_storedbacktest
    ADD CONSTRAINT outcomes_storedbacktest_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.outcomes_storedforecast
    ADD CONSTRAINT outcomes_storedforecast_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.marketplace_pendinglicense
    ADD CONSTRAINT pending_row_once UNIQUE (run_id, key, digest);
ALTER TABLE ONLY public.readapi_apitoken
    ADD CONSTRAINT readapi_apitoken_digest_key UNIQUE (digest);
ALTER TABLE ONLY public.readapi_apitoken
    ADD CONSTRAINT readapi_apitoken_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.readapi_usage
    ADD CONSTRAINT readapi_usage_pkey PRIMARY KEY (token_id);
ALTER TABLE ONLY public.engagement_segment
    ADD CONSTRAINT segment_name_per_workspace UNIQUE (workspace_id, scope, name);
ALTER TABLE ONLY public.engagement_storedorder
    ADD CONSTRAINT stored_order_per_column UNIQUE (score_set_id, scope, "column");
ALTER TABLE ONLY public.engagement_traitname
    ADD CONSTRAINT trait_name_per_product UNIQUE (product_id, name);
ALTER TABLE ONLY public.trends_dayfigures
    ADD CONSTRAINT trends_dayfigures_pkey PRIMARY KEY (workspace_id, segment_id, day);
ALTER TABLE ONLY public.trends_segmentmove
    ADD CONSTRAINT trends_segmentmove_pkey PRIMARY KEY (product_id, scope, subject_id, segment_id, day);
ALTER TABLE ONLY public.trends_segmentroster
    ADD CONSTRAINT trends_segmentroster_pkey PRIMARY KEY (segment_id);
ALTER TABLE ONLY public.trends_storedchanges
    ADD CONSTRAINT trends_storedchanges_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.trends_storedcohorts
    ADD CONSTRAINT trends_storedcohorts_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.trends_usageday
    ADD CONSTRAINT trends_usageday_pkey PRIMARY KEY (product_id, feature_id, event_name_id, day);
ALTER TABLE ONLY public.engagement_user
    ADD CONSTRAINT user_external_id_per_product UNIQUE (product_id, external_id);
ALTER TABLE ONLY public.notifications_watch
    ADD CONSTRAINT watch_per_product UNIQUE (product_id, key);
ALTER TABLE ONLY public.engagement_workspace
    ADD CONSTRAINT workspace_name_per_product UNIQUE (product_id, name);
CREATE INDEX account_created ON public.engagement_account USING btree (COALESCE(created_at, first_seen_at));
CREATE INDEX account_domain ON public.engagement_account USING btree (product_id, lower("left"((traits ->> 'domain'::text), 320)));
CREATE INDEX account_idle ON public.engagement_accountengagement USING btree (score_set_id, last_active_at) WHERE (raw = 0);
CREATE INDEX account_ranking ON public.engagement_accountengagement USING btree (score_set_id, raw DESC, account_id DESC);
CREATE INDEX account_traits ON public.engagement_account USING gin (traits jsonb_path_ops);
CREATE INDEX account_undecided ON public.engagement_accountengagement USING btree (score_set_id, raw DESC, account_id DESC) WHERE ((activity IS NULL) OR (activity > 0));
CREATE INDEX active_day_by_day ON public.engagement_activeday USING brin (day) WITH (autosummarize='on', pages_per_range='32');
CREATE INDEX alarm_by_end ON public.engagement_alarm USING btree (product_id, workspace_id, level, ended_on) WHERE (ended_on IS NOT NULL);
CREATE INDEX alarm_by_onset ON public.engagement_alarm USING btree (product_id, workspace_id, level, since);
CREATE INDEX alarm_open ON public.engagement_alarm USING btree (product_id, workspace_id, signal, level, account_id) WHERE (ended_on IS NULL);
CREATE INDEX alarm_settled ON public.engagement_alarm USING btree (product_id, workspace_id, signal, level, since) WHERE ((outcome)::text = 'settled'::text);
CREATE INDEX alarm_work_closed ON public.engagement_alarmwork USING btree (product_id, workspace_id, closed_at) WHERE (closed_at IS NOT NULL);
CREATE INDEX alias_by_user ON public.engagement_alias USING btree (product_id, user_id);
CREATE INDEX alias_license ON public.marketplace_licensealias USING btree (product_id, license);
CREATE INDEX auth_group_name_a6ea08ec_like ON public.auth_group USING btree (name varchar_pattern_ops);
CREATE INDEX auth_group_permissions_group_id_b120cbf9 ON public.auth_group_permissions USING btree (group_id);
CREATE INDEX auth_group_permissions_permission_id_84c5c92e ON public.auth_group_permissions USING btree (permission_id);
CREATE INDEX auth_permission_content_type_id_2f476e4b ON public.auth_permission USING btree (content_type_id);
CREATE INDEX auth_user_groups_group_id_97559544 ON public.auth_user_groups USING btree (group_id);
CREATE INDEX auth_user_groups_user_id_6a12ed8b ON public.auth_user_groups USING btree (user_id);
CREATE INDEX auth_user_user_permissions_permission_id_1fbb5f2c ON public.auth_user_user_permissions USING btree (permission_id);
CREATE INDEX auth_user_user_permissions_user_id_a95ead1b ON public.auth_user_user_permissions USING btree (user_id);
CREATE INDEX auth_user_username_6821ab7c_like ON public.auth_user USING btree (username varchar_pattern_ops);
CREATE INDEX chance_by_day ON public.engagement_accountchance USING btree (product_id, workspace_id, kind, day);
CREATE INDEX chance_order ON public.engagement_accountchance USING btree (product_id, workspace_id, kind, chance);
CREATE INDEX daily_count_by_account ON public.engagement_dailycount USING btree (product_id, account_id, day);
CREATE INDEX daily_count_by_day ON public.engagement_dailycount USING brin (day) WITH (autosummarize='on', pages_per_range='32');
CREATE INDEX delivery_age ON public.notifications_delivery USING btree (attempted_at);
CREATE INDEX destinations_recorddestination_product_id_2945176a ON public.destinations_recorddestination USING btree (product_id);
CREATE INDEX destinations_recorddestination_workspace_id_f4fb91f5 ON public.destinations_recorddestination USING btree (workspace_id);
CREATE INDEX destinations_recordrun_destination_id_f42e3407 ON public.destinations_recordrun USING btree (destination_id);
CREATE INDEX destinations_recordrun_product_id_d84ee897 ON public.destinations_recordrun USING btree (product_id);
CREATE INDEX django_admin_log_content_type_id_c4bce8eb ON public.django_admin_log USING btree (content_type_id);
CREATE INDEX django_admin_log_user_id_c564eba6 ON public.django_admin_log USING btree (user_id);
CREATE INDEX django_celery_beat_periodictask_clocked_id_47a69f82 ON public.django_celery_beat_periodictask USING btree (clocked_id);
CREATE INDEX django_celery_beat_periodictask_crontab_id_d3cba168 ON public.django_celery_beat_periodictask USING btree (crontab_id);
CREATE INDEX django_celery_beat_periodictask_interval_id_a8ca27da ON public.django_celery_beat_periodictask USING btree (interval_id);
CREATE INDEX django_celery_beat_periodictask_name_265a36b7_like ON public.django_celery_beat_periodictask USING btree (name varchar_pattern_ops);
CREATE INDEX django_celery_beat_periodictask_solar_id_a87ce72c ON public.django_celery_beat_periodictask USING btree (solar_id);
CREATE INDEX django_session_expire_date_a5c62663 ON public.django_session USING btree (expire_date);
CREATE INDEX django_session_session_key_c0390e0f_like ON public.django_session USING btree (session_key varchar_pattern_ops);
CREATE INDEX dropped_by_product ON public.ingestion_droppedmessage USING btree (product_id, dropped_at DESC);
CREATE INDEX dropped_by_time ON public.ingestion_droppedmessage USING btree (dropped_at);
CREATE INDEX due_jobs ON public.core_job USING btree (due_at) WHERE ((due_at IS NOT NULL) AND (NOT is_paused));
CREATE INDEX engagement_activation_product_id_32d6e723 ON public.engagement_activation USING btree (product_id);
CREATE INDEX engagement_activation_workspace_id_a256ea1c ON public.engagement_activation USING btree (workspace_id);
CREATE INDEX engagement_alarmnight_workspace_id_7a7edb14 ON public.engagement_alarmnight USING btree (workspace_id);
CREATE INDEX engagement_chore_name_d70c7951_like ON public.engagement_chore USING btree (name varchar_pattern_ops);
CREATE INDEX engagement_editedrule_score_set_id_9539c67e ON public.engagement_editedrule USING btree (score_set_id);
CREATE INDEX event_by_receipt ON ONLY public.engagement_event USING brin (received_at) WITH (autosummarize='on', pages_per_range='32');
CREATE INDEX engagement_event_default_received_at_idx ON public.engagement_event_default USING brin (received_at) WITH (autosummarize='on', pages_per_range='32');
CREATE INDEX engagement_eventweight_event_name_id_45c6d875 ON public.engagement_eventweight USING btree (event_name_id);
CREATE INDEX engagement_eventweight_workspace_id_a4b5f006 ON public.engagement_eventweight USING btree (workspace_id);
CREATE INDEX engagement_externalidentity_user_id_f764190d ON public.engagement_externalidentity USING btree (user_id);
CREATE INDEX engagement_habitpart_score_set_id_7a96155e ON public.engagement_habitpart USING btree (score_set_id);
CREATE INDEX engagement_invite_created_by_id_f45feaa8 ON public.engagement_invite USING btree (created_by_id);
CREATE INDEX engagement_invite_login_id_1c3f7b3e ON public.engagement_invite USING btree (login_id);
CREATE INDEX engagement_invite_product_id_c94da379 ON public.engagement_invite USING btree (product_id);
CREATE INDEX engagement_keptdefault_name_39142b21_like ON public.engagement_keptdefault USING btree (name varchar_pattern_ops);
CREATE INDEX engagement_loginattempts_subject_46f055eb_like ON public.engagement_loginattempts USING btree (subject varchar_pattern_ops);
CREATE INDEX engagement_loginsession_digest_83d178c8_like ON public.engagement_loginsession USING btree (digest varchar_pattern_ops);
CREATE INDEX engagement_loginsession_user_id_5f856738 ON public.engagement_loginsession USING btree (user_id);
CREATE INDEX engagement_measure_name_5bb14dd6_like ON public.engagement_measure USING btree (name varchar_pattern_ops);
CREATE INDEX engagement_movedthreshold_score_set_id_32b6579d ON public.engagement_movedthreshold USING btree (score_set_id);
CREATE INDEX engagement_productmember_product_id_36d0a27e ON public.engagement_productmember USING btree (product_id);
CREATE INDEX engagement_productmember_user_id_45538759 ON public.engagement_productmember USING btree (user_id);
CREATE INDEX engagement_provenaddress_email_3613876d_like ON public.engagement_provenaddress USING btree (email varchar_pattern_ops);
CREATE INDEX engagement_recoverycode_user_id_4610965c ON public.engagement_recoverycode USING btree (user_id);
CREATE INDEX engagement_rolegrant_product_id_73de10d7 ON public.engagement_rolegrant USING btree (product_id);
CREATE INDEX engagement_rolegrant_user_id_3c06100e ON public.engagement_rolegrant USING btree (user_id);
CREATE INDEX engagement_savedview_owner_id_52da996f ON public.engagement_savedview USING btree (owner_id);
CREATE INDEX engagement_savedview_product_id_40ff70e3 ON public.engagement_savedview USING btree (product_id);
CREATE INDEX engagement_savedview_workspace_id_032c7b67 ON public.engagement_savedview USING btree (workspace_id);
CREATE INDEX engagement_scoreset_product_id_bc7bb9d6 ON public.engagement_scoreset USING btree (product_id);
CREATE INDEX engagement_scoreset_workspace_id_9591a519 ON public.engagement_scoreset USING btree (workspace_id);
CREATE INDEX engagement_secondfactor_user_id_598d75a0 ON public.engagement_secondfactor USING btree (user_id);
CREATE INDEX engagement_segment_workspace_id_698a4199 ON public.engagement_segment USING btree (workspace_id);
CREATE INDEX engagement_turnedday_score_set_id_c8de5265 ON public.engagement_turnedday USING btree (score_set_id);
CREATE INDEX engagement_user_account_id_645ae24d ON public.engagement_user USING btree (account_id);
CREATE INDEX engagement_workspace_product_id_77dd38ee ON public.engagement_workspace USING btree (product_id);
CREATE INDEX event_name_not_done ON public.engagement_eventname USING btree (product_id) WHERE (done_by = 0);
CREATE INDEX export_due ON public.exports_scheduledexport USING btree (next_run_at) WHERE (next_run_at IS NOT NULL);
CREATE INDEX export_run_age ON public.exports_exportrun USING btree (requested_at);
CREATE INDEX export_run_due ON public.exports_exportrun USING btree (due_at) WHERE ((state)::text = ANY ((ARRAY['waiting'::character varying, 'running'::character varying])::text[]));
CREATE INDEX exports_exportfile_run_id_0757415f ON public.exports_exportfile USING btree (run_id);
CREATE INDEX exports_exportrun_export_id_88bc4f83 ON public.exports_exportrun USING btree (export_id);
CREATE INDEX exports_exportrun_product_id_63d92dfb ON public.exports_exportrun USING btree (product_id);
CREATE INDEX exports_scheduledexport_product_id_d632e37f ON public.exports_scheduledexport USING btree (product_id);
CREATE INDEX exports_scheduledexport_workspace_id_7157dc11 ON public.exports_scheduledexport USING btree (workspace_id);
CREATE INDEX feedback_license ON public.marketplace_feedback USING gin (names) WITH (fastupdate=off);
CREATE INDEX forgotten_by_digest ON public.engagement_forgottensubject USING btree (product_id, digest);
CREATE INDEX forgotten_to_clear ON public.engagement_forgottensubject USING btree (row_id) WHERE (row_id IS NOT NULL);
CREATE INDEX hour_count_by_time ON public.ingestion_hourcount USING btree (hour);
CREATE INDEX ingestion_dropcount_product_id_fd42f780 ON public.ingestion_dropcount USING btree (product_id);
CREATE INDEX ingestion_forgetkey_owner_id_f2b20111 ON public.ingestion_forgetkey USING btree (owner_id);
CREATE INDEX ingestion_forgetkey_product_id_feee8b4a ON public.ingestion_forgetkey USING btree (product_id);
CREATE INDEX ingestion_ingestionkey_owner_id_ceb8868b ON public.ingestion_ingestionkey USING btree (owner_id);
CREATE INDEX ingestion_ingestionkey_product_id_06b130ec ON public.ingestion_ingestionkey USING btree (product_id);
CREATE INDEX ingestion_quarantinedmessage_product_id_de43fd73 ON public.ingestion_quarantinedmessage USING btree (product_id);
CREATE INDEX invite_by_expiry ON public.engagement_invite USING btree (expires_at);
CREATE INDEX join_request_by_user ON public.engagement_joinrequest USING btree (product_id, user_id);
CREATE INDEX latest_model ON public.outcomes_chancemodel USING btree (workspace_id, kind, age, fitted_at DESC);
CREATE INDEX ledger_account ON public.marketplace_ledgerlicense USING btree (product_id, cloud_id);
CREATE INDEX ledger_deadline ON public.marketplace_ledgerlicense USING btree (product_id, deadline) WHERE (deadline IS NOT NULL);
CREATE INDEX ledger_links ON public.marketplace_ledgerlicense USING gin (links) WITH (fastupdate=off);
CREATE INDEX ledger_stale ON public.marketplace_ledgerlicense USING btree (product_id, license) WHERE (stale > 0);
CREATE INDEX license_account ON public.marketplace_license USING btree (product_id, cloud_id);
CREATE INDEX license_event_account ON public.marketplace_licenseevent USING btree (product_id, cloud_id, date);
CREATE INDEX license_event_changed ON public.marketplace_licenseevent USING btree (product_id, changed_at, ((hashtextextended(((COALESCE(license, ''::character varying))::text || COALESCE((COALESCE(' '::text, ''::text) || COALESCE(((COALESCE(type, ''::character varying))::text || COALESCE((COALESCE(' '::text, ''::text) || (COALESCE(anchor, ''::character varying))::text), ''::text)), ''::text)), ''::text)), (0)::bigint) & '9223372036854775807'::bigint)));
CREATE INDEX license_event_date ON public.marketplace_licenseevent USING btree (product_id, date, ((hashtextextended(((COALESCE(license, ''::character varying))::text || COALESCE((COALESCE(' '::text, ''::text) || COALESCE(((COALESCE(type, ''::character varying))::text || COALESCE((COALESCE(' '::text, ''::text) || (COALESCE(anchor, ''::character varying))::text), ''::text)), ''::text)), ''::text)), (0)::bigint) & '9223372036854775807'::bigint)));
CREATE INDEX license_event_type ON public.marketplace_licenseevent USING btree (product_id, type, date);
CREATE INDEX license_outcome_by_day ON public.outcomes_licenseoutcome USING btree (product_id, kind, day);
CREATE INDEX license_parent ON public.marketplace_license USING btree (product_id, parent_key) WHERE ((parent_key)::text > ''::text);
CREATE INDEX login_attempts_to_forget ON public.engagement_loginattempts USING btree (keep_until);
CREATE INDEX login_session_by_age ON public.engagement_loginsession USING btree (created_at);
CREATE INDEX marketplace_failedrecord_run_id_5b68fd2e ON public.marketplace_failedrecord USING btree (run_id);
CREATE INDEX marketplace_seenlicenses_run_id_8f81e2e5 ON public.marketplace_seenlicenses USING btree (run_id);
CREATE INDEX message_id_by_time ON public.ingestion_seenmessageid USING btree (seen_at);
CREATE INDEX notes_of_account ON public.engagement_accountnote USING btree (product_id, account_id, written_at DESC);
CREATE INDEX notifications_delivery_message_id_df4d325b ON public.notifications_delivery USING btree (message_id);
CREATE INDEX notifications_delivery_product_id_8a1d6d06 ON public.notifications_delivery USING btree (product_id);
CREATE INDEX notifications_destination_owner_id_ce9fbd99 ON public.notifications_destination USING btree (owner_id);
CREATE INDEX notifications_destination_product_id_8a1b1d10 ON public.notifications_destination USING btree (product_id);
CREATE INDEX notifications_digest_destination_id_5161f61b ON public.notifications_digest USING btree (destination_id);
CREATE INDEX notifications_digest_owner_id_a8f7ed58 ON public.notifications_digest USING btree (owner_id);
CREATE INDEX notifications_digest_product_id_667eb34c ON public.notifications_digest USING btree (product_id);
CREATE INDEX notifications_digest_segment_id_6f398d58 ON public.notifications_digest USING btree (segment_id);
CREATE INDEX notifications_digest_view_id_3e90d2b9 ON public.notifications_digest USING btree (view_id);
CREATE INDEX notifications_digest_workspace_id_e86d2bb4 ON public.notifications_digest USING btree (workspace_id);
CREATE INDEX notifications_outboxmessage_message_id_1c7a582c_like ON public.notifications_outboxmessage USING btree (message_id varchar_pattern_ops);
CREATE INDEX notifications_outboxmessage_product_id_a5b8105b ON public.notifications_outboxmessage USING btree (product_id);
CREATE INDEX notifications_subscription_destination_id_58d2ba6e ON public.notifications_subscription USING btree (destination_id);
CREATE INDEX notifications_subscription_filter_segment_id_c157356e ON public.notifications_subscription USING btree (filter_segment_id);
CREATE INDEX notifications_subscription_product_id_8903bc1e ON public.notifications_subscription USING btree (product_id);
CREATE INDEX notifications_subscription_segment_id_0b9c0087 ON public.notifications_subscription USING btree (segment_id);
CREATE INDEX notifications_subscription_watch_id_ba4e6748 ON public.notifications_subscription USING btree (watch_id);
CREATE INDEX notifications_subscription_workspace_id_d8b99dde ON public.notifications_subscription USING btree (workspace_id);
CREATE INDEX notifications_watch_product_id_cf6edb1d ON public.notifications_watch USING btree (product_id);
CREATE INDEX notifications_watch_segment_id_8b1b918c ON public.notifications_watch USING btree (segment_id);
CREATE INDEX notifications_watch_workspace_id_eb39ad78 ON public.notifications_watch USING btree (workspace_id);
CREATE UNIQUE INDEX one_activation_of_a_state ON public.engagement_activation USING btree (workspace_id, scope, state) WHERE ((state)::text = ANY ((ARRAY['building'::character varying, 'current'::character varying])::text[]));
CREATE UNIQUE INDEX one_building_score_set ON public.engagement_scoreset USING btree (workspace_id) WHERE ((state)::text = 'building'::text);
CREATE UNIQUE INDEX one_current_score_set ON public.engagement_scoreset USING btree (workspace_id) WHERE ((state)::text = 'current'::text);
CREATE UNIQUE INDEX one_default_view ON public.engagement_savedview USING btree (workspace_id, scope, owner_id) NULLS NOT DISTINCT WHERE is_default;
CREATE UNIQUE INDEX one_job_of_a_key ON public.core_job USING btree (kind, key);
CREATE UNIQUE INDEX one_subject_of_a_record ON public.destinations_recordlink USING btree (destination_id, remote_id) WHERE (NOT ((remote_id)::text = ''::text));
CREATE UNIQUE INDEX one_unfinished_export_run ON public.exports_exportrun USING btree (export_id) WHERE ((state)::text = ANY ((ARRAY['waiting'::character varying, 'running'::character varying])::text[]));
CREATE UNIQUE INDEX one_unfinished_record_run ON public.destinations_recordrun USING btree (destination_id) WHERE ((state)::text = ANY ((ARRAY['waiting'::character varying, 'running'::character varying])::text[]));
CREATE UNIQUE INDEX one_unfinished_run_per_connection ON public.marketplace_syncrun USING btree (connection_id) WHERE ((state)::text = ANY ((ARRAY['waiting'::character varying, 'running'::character varying])::text[]));
CREATE INDEX outbox_age ON public.notifications_outboxmessage USING btree (created_at);
CREATE INDEX outbox_by_subject ON public.notifications_outboxmessage USING btree (product_id, scope, external_id);
CREATE INDEX outbox_last_told ON public.notifications_outboxmessage USING btree (subscription_id, subject_id, created_at);
CREATE INDEX outbox_log ON public.notifications_outboxmessage USING btree (destination_id, id DESC);
CREATE INDEX outbox_waiting ON public.notifications_outboxmessage USING btree (destination_id, id) WHERE ((state)::text = 'waiting'::text);
CREATE INDEX outbox_waiting_subject ON public.notifications_outboxmessage USING btree (destination_id, scope, subject_id, id) WHERE ((state)::text = 'waiting'::text);
CREATE INDEX outcomes_chancemodel_product_id_5ced19e4 ON public.outcomes_chancemodel USING btree (product_id);
CREATE INDEX outcomes_storedbacktest_product_id_c210dcc7 ON public.outcomes_storedbacktest USING btree (product_id);
CREATE INDEX outcomes_storedbacktest_segment_id_2e3a9b82 ON public.outcomes_storedbacktest USING btree (segment_id);
CREATE INDEX outcomes_storedforecast_product_id_3b11cc10 ON public.outcomes_storedforecast USING btree (product_id);
CREATE INDEX part_request_by_user ON public.engagement_partrequest USING btree (product_id, user_id);
CREATE INDEX readapi_apitoken_owner_id_b298b606 ON public.readapi_apitoken USING btree (owner_id);
CREATE INDEX readapi_apitoken_product_id_015dfe16 ON public.readapi_apitoken USING btree (product_id);
CREATE INDEX reattribution_by_user ON public.engagement_reattributionrequest USING btree (product_id, user_id);
CREATE INDEX record_destination_due ON public.destinations_recorddestination USING btree (next_run_at) WHERE (next_run_at IS NOT NULL);
CREATE INDEX record_link_external_id ON public.destinations_recordlink USING btree (product_id, external_id);
CREATE INDEX record_link_not_linked ON public.destinations_recordlink USING btree (destination_id, state, subject_id) WHERE (NOT ((state)::text = 'linked'::text));
CREATE INDEX record_run_age ON public.destinations_recordrun USING btree (requested_at);
CREATE INDEX refused_by_code ON public.ingestion_refusedrequest USING btree (product_id, code, id DESC);
CREATE INDEX refused_by_time ON public.ingestion_refusedrequest USING btree (received_at);
CREATE INDEX refused_count_by_time ON public.ingestion_refusedcount USING btree (hour);
CREATE INDEX run_due ON public.marketplace_syncrun USING btree (due_at) WHERE ((state)::text = ANY ((ARRAY['waiting'::character varying, 'running'::character varying])::text[]));
CREATE INDEX run_history ON public.marketplace_syncrun USING btree (connection_id, id DESC);
CREATE INDEX search_grams ON public.engagement_searchentry USING gin (public.engagement_search_grams(((product_id * 2) + kind), text));
CREATE INDEX segment_move_by_day ON public.trends_segmentmove USING btree (product_id, segment_id, day);
CREATE INDEX steps_done_by_step ON public.engagement_stepsdone USING btree (product_id, activation_id, reached, late_on);
CREATE INDEX trace_age ON public.engagement_subjecttrace USING btree (recorded_at);
CREATE INDEX trace_unscored ON public.engagement_subjecttrace USING btree (product_id) WHERE (NOT is_scored);
CREATE INDEX trail_by_time ON public.engagement_trailentry USING btree (at);
CREATE INDEX trail_of_object ON public.engagement_trailentry USING btree (kind, object_id);
CREATE INDEX trail_of_product ON public.engagement_trailentry USING btree (of_product, id DESC);
CREATE INDEX trait_change_by_day ON public.engagement_traitchange USING btree (product_id, day);
CREATE INDEX transaction_license ON public.marketplace_transaction USING gin (names) WITH (fastupdate=off);
CREATE INDEX trends_dayfigures_workspace_id_702ce8c8 ON public.trends_dayfigures USING btree (workspace_id);
CREATE INDEX trends_storedchanges_segment_id_88d5319d ON public.trends_storedchanges USING btree (segment_id);
CREATE INDEX usage_day_by_day ON public.trends_usageday USING btree (product_id, day);
CREATE INDEX use_by_first_day ON public.engagement_accountuse USING btree (product_id, event_name_id, first_day);
CREATE INDEX use_by_last_day ON public.engagement_accountuse USING btree (product_id, event_name_id, last_day);
CREATE INDEX user_created ON public.engagement_user USING btree (COALESCE(created_at, first_seen_at));
CREATE INDEX user_email ON public.engagement_user USING btree (product_id, lower("left"((traits ->> 'email'::text), 320)));
CREATE INDEX user_idle ON public.engagement_userengagement USING btree (score_set_id, last_active_at) WHERE (raw = 0);
CREATE INDEX user_ranking ON public.engagement_userengagement USING btree (score_set_id, raw DESC, user_id DESC);
CREATE INDEX user_traits ON public.engagement_user USING gin (traits jsonb_path_ops);
CREATE INDEX work_by_owner ON public.engagement_accountwork USING btree (product_id, owner, account_id) WHERE (NOT ((owner)::text = ''::text));
CREATE INDEX work_tags ON public.engagement_accountwork USING gin (tags);
ALTER INDEX public.event_by_receipt ATTACH PARTITION public.engagement_event_default_received_at_idx;
CREATE TRIGGER trail_is_append_only BEFORE DELETE OR UPDATE ON public.engagement_trailentry FOR EACH ROW EXECUTE FUNCTION public.engagement_trail_is_append_only();
CREATE TRIGGER trail_is_not_truncated BEFORE TRUNCATE ON public.engagement_trailentry FOR EACH STATEMENT EXECUTE FUNCTION public.engagement_trail_is_append_only();
ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissio_permission_id_84c5c92e_fk_auth_perm FOREIGN KEY (permission_id) REFERENCES public.auth_permission(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_group_id_b120cbf9_fk_auth_group_id FOREIGN KEY (group_id) REFERENCES public.auth_group(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_content_type_id_2f476e4b_fk_django_co FOREIGN KEY (content_type_id) REFERENCES public.django_content_type(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_user_groups
    ADD CONSTRAINT auth_user_groups_group_id_97559544_fk_auth_group_id FOREIGN KEY (group_id) REFERENCES public.auth_group(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_user_groups
    ADD CONSTRAINT auth_user_groups_user_id_6a12ed8b_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_user_user_permissions
    ADD CONSTRAINT auth_user_user_permi_permission_id_1fbb5f2c_fk_auth_perm FOREIGN KEY (permission_id) REFERENCES public.auth_permission(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_user_user_permissions
    ADD CONSTRAINT auth_user_user_permissions_user_id_a95ead1b_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.destinations_recorddestination
    ADD CONSTRAINT destinations_recordd_product_id_2945176a_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.destinations_recorddestination
    ADD CONSTRAINT destinations_recordd_workspace_id_f4fb91f5_fk_engagemen FOREIGN KEY (workspace_id) REFERENCES public.engagement_workspace(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.destinations_recordlink
    ADD CONSTRAINT destinations_recordl_destination_id_1eb1bbb8_fk_destinati FOREIGN KEY (destination_id) REFERENCES public.destinations_recorddestination(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.destinations_recordrun
    ADD CONSTRAINT destinations_recordr_destination_id_f42e3407_fk_destinati FOREIGN KEY (destination_id) REFERENCES public.destinations_recorddestination(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.django_admin_log
    ADD CONSTRAINT django_admin_log_content_type_id_c4bce8eb_fk_django_co FOREIGN KEY (content_type_id) REFERENCES public.django_content_type(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.django_admin_log
    ADD CONSTRAINT django_admin_log_user_id_c564eba6_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.django_celery_beat_periodictask
    ADD CONSTRAINT django_celery_beat_p_clocked_id_47a69f82_fk_django_ce FOREIGN KEY (clocked_id) REFERENCES public.django_celery_beat_clockedschedule(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.django_celery_beat_periodictask
    ADD CONSTRAINT django_celery_beat_p_crontab_id_d3cba168_fk_django_ce FOREIGN KEY (crontab_id) REFERENCES public.django_celery_beat_crontabschedule(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.django_celery_beat_periodictask
    ADD CONSTRAINT django_celery_beat_p_interval_id_a8ca27da_fk_django_ce FOREIGN KEY (interval_id) REFERENCES public.django_celery_beat_intervalschedule(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.django_celery_beat_periodictask
    ADD CONSTRAINT django_celery_beat_p_solar_id_a87ce72c_fk_django_ce FOREIGN KEY (solar_id) REFERENCES public.django_celery_beat_solarschedule(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.engagement_account
    ADD CONSTRAINT engagement_account_product_id_b3537cdb_fk_engagement_product_id FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.engagement_activation
    ADD CONSTRAINT engagement_activatio_workspace_id_a256ea1c_fk_engagemen FOREIGN KEY (workspace_id) REFERENCES public.engagement_workspace(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.engagement_alarmnight
    ADD CONSTRAINT engagement_alarmnigh_workspace_id_7a7edb14_fk_engagemen FOREIGN KEY (workspace_id) REFERENCES public.engagement_workspace(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.engagement_dailybenchmark
    ADD CONSTRAINT engagement_dailybenc_score_set_id_46f60f8c_fk_engagemen FOREIGN KEY (score_set_id) REFERENCES public.engagement_scoreset(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.engagement_editedrule
    ADD CONSTRAINT engagement_editedrul_score_set_id_9539c67e_fk_engagemen FOREIGN KEY (score_set_id) REFERENCES public.engagement_scoreset(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.engagement_eventname
    ADD CONSTRAINT engagement_eventname_product_id_c0eca050_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.engagement_eventweight
    ADD CONSTRAINT engagement_eventweig_event_name_id_45c6d875_fk_engagemen FOREIGN KEY (event_name_id) REFERENCES public.engagement_eventname(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.engagement_eventweight
    ADD CONSTRAINT engagement_eventweig_workspace_id_a4b5f006_fk_engagemen FOREIGN KEY (workspace_id) REFERENCES public.engagement_workspace(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.engagement_forgottensubject
    ADD CONSTRAINT engagement_forgotten_product_id_6a2cb524_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.engagement_habitpart
    ADD CONSTRAINT engagement_habitpart_score_set_id_7a96155e_fk_engagemen FOREIGN KEY (score_set_id) REFERENCES public.engagement_scoreset(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.engagement_invite
    ADD CONSTRAINT engagement_invite_created_by_id_f45feaa8_fk_auth_user_id FOREIGN KEY (created_by_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.engagement_invite
    ADD CONSTRAINT engagement_invite_login_id_1c3f7b3e_fk_auth_user_id FOREIGN KEY (login_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.engagement_invite
    ADD CONSTRAINT engagement_invite_product_id_c94da379_fk_engagement_product_id FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.engagement_membership
    ADD CONSTRAINT engagement_membershi_product_id_01f15137_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.engagement_movedthreshold
    ADD CONSTRAINT engagement_movedthre_score_set_id_32b6579d_fk_engagemen FOREIGN KEY (score_set_id) REFERENCES public.engagement_scoreset(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.engagement_productlimits
    ADD CONSTRAINT engagement_productli_product_id_cfce0ec6_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.engagement_productmember
    ADD CONSTRAINT engagement_productme_product_id_36d0a27e_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.engagement_productmember
    ADD CONSTRAINT engagement_productmember_user_id_45538759_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.engagement_productusage
    ADD CONSTRAINT engagement_productus_product_id_06175c73_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.engagement_savedview
    ADD CONSTRAINT engagement_savedview_owner_id_52da996f_fk_auth_user_id FOREIGN KEY (owner_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.engagement_savedview
    ADD CONSTRAINT engagement_savedview_workspace_id_032c7b67_fk_engagemen FOREIGN KEY (workspace_id) REFERENCES public.engagement_workspace(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.engagement_scoredevent
    ADD CONSTRAINT engagement_scoredeve_score_set_id_3b1559e1_fk_engagemen FOREIGN KEY (score_set_id) REFERENCES public.engagement_scoreset(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.engagement_scoreset
    ADD CONSTRAINT engagement_scoreset_workspace_id_9591a519_fk_engagemen FOREIGN KEY (workspace_id) REFERENCES public.engagement_workspace(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.engagement_segment
    ADD CONSTRAINT engagement_segment_workspace_id_698a4199_fk_engagemen FOREIGN KEY (workspace_id) REFERENCES public.engagement_workspace(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.engagement_tally
    ADD CONSTRAINT engagement_tally_score_set_id_7ee9ed61_fk_engagemen FOREIGN KEY (score_set_id) REFERENCES public.engagement_scoreset(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.engagement_traitname
    ADD CONSTRAINT engagement_traitname_product_id_b35bf804_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.engagement_turnedday
    ADD CONSTRAINT engagement_turnedday_score_set_id_c8de5265_fk_engagemen FOREIGN KEY (score_set_id) REFERENCES public.engagement_scoreset(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.engagement_usagestate
    ADD CONSTRAINT engagement_usagestat_product_id_c7d14860_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.engagement_user
    ADD CONSTRAINT engagement_user_product_id_3ba78331_fk_engagement_product_id FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.engagement_workspace
    ADD CONSTRAINT engagement_workspace_product_id_77dd38ee_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.exports_exportrun
    ADD CONSTRAINT exports_exportrun_export_id_88bc4f83_fk_exports_s FOREIGN KEY (export_id) REFERENCES public.exports_scheduledexport(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.exports_scheduledexport
    ADD CONSTRAINT exports_scheduledexp_product_id_d632e37f_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.exports_scheduledexport
    ADD CONSTRAINT exports_scheduledexp_workspace_id_7157dc11_fk_engagemen FOREIGN KEY (workspace_id) REFERENCES public.engagement_workspace(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.ingestion_dropcount
    ADD CONSTRAINT ingestion_dropcount_product_id_fd42f780_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.ingestion_droppedmessage
    ADD CONSTRAINT ingestion_droppedmes_product_id_099968d2_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.ingestion_forgetkey
    ADD CONSTRAINT ingestion_forgetkey_owner_id_f2b20111_fk_auth_user_id FOREIGN KEY (owner_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.ingestion_forgetkey
    ADD CONSTRAINT ingestion_forgetkey_product_id_feee8b4a_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.ingestion_importedfile
    ADD CONSTRAINT ingestion_importedfi_product_id_7f88e789_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.ingestion_ingestionkey
    ADD CONSTRAINT ingestion_ingestionk_product_id_06b130ec_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.ingestion_ingestionkey
    ADD CONSTRAINT ingestion_ingestionkey_owner_id_ceb8868b_fk_auth_user_id FOREIGN KEY (owner_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.ingestion_quarantinedmessage
    ADD CONSTRAINT ingestion_quarantine_product_id_de43fd73_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.marketplace_connection
    ADD CONSTRAINT marketplace_connecti_product_id_b0f1d1e0_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.marketplace_failedrecord
    ADD CONSTRAINT marketplace_failedre_run_id_5b68fd2e_fk_marketpla FOREIGN KEY (run_id) REFERENCES public.marketplace_syncrun(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.marketplace_feedback
    ADD CONSTRAINT marketplace_feedback_product_id_6e15c580_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.marketplace_ledger
    ADD CONSTRAINT marketplace_ledger_product_id_eebbbb7f_fk_engagement_product_id FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.marketplace_ledgerlicense
    ADD CONSTRAINT marketplace_ledgerli_product_id_73d42e17_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.marketplace_license
    ADD CONSTRAINT marketplace_license_product_id_e5a0cc6e_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.marketplace_licensealias
    ADD CONSTRAINT marketplace_licensea_product_id_6883b7ff_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.marketplace_licenseevent
    ADD CONSTRAINT marketplace_licensee_product_id_26262fc8_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.marketplace_metricevent
    ADD CONSTRAINT marketplace_metricev_product_id_a4fd1dc7_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.marketplace_observation
    ADD CONSTRAINT marketplace_observat_product_id_f2fded49_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.marketplace_pendinglicense
    ADD CONSTRAINT marketplace_pendingl_run_id_229c2ab8_fk_marketpla FOREIGN KEY (run_id) REFERENCES public.marketplace_syncrun(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.marketplace_reportreading
    ADD CONSTRAINT marketplace_reportre_connection_id_3d2ef7a3_fk_marketpla FOREIGN KEY (connection_id) REFERENCES public.marketplace_connection(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.marketplace_seenlicenses
    ADD CONSTRAINT marketplace_seenlice_run_id_8f81e2e5_fk_marketpla FOREIGN KEY (run_id) REFERENCES public.marketplace_syncrun(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.marketplace_syncrun
    ADD CONSTRAINT marketplace_syncrun_connection_id_ac505fcd_fk_marketpla FOREIGN KEY (connection_id) REFERENCES public.marketplace_connection(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.marketplace_transaction
    ADD CONSTRAINT marketplace_transact_product_id_10d64910_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.notifications_destination
    ADD CONSTRAINT notifications_destin_product_id_8a1b1d10_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.notifications_digest
    ADD CONSTRAINT notifications_digest_destination_id_5161f61b_fk_notificat FOREIGN KEY (destination_id) REFERENCES public.notifications_destination(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.notifications_digestissue
    ADD CONSTRAINT notifications_digest_digest_id_187d77b3_fk_notificat FOREIGN KEY (digest_id) REFERENCES public.notifications_digest(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.notifications_digest
    ADD CONSTRAINT notifications_digest_product_id_667eb34c_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.notifications_digest
    ADD CONSTRAINT notifications_digest_segment_id_6f398d58_fk_engagemen FOREIGN KEY (segment_id) REFERENCES public.engagement_segment(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.notifications_digest
    ADD CONSTRAINT notifications_digest_view_id_3e90d2b9_fk_engagemen FOREIGN KEY (view_id) REFERENCES public.engagement_savedview(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.notifications_digest
    ADD CONSTRAINT notifications_digest_workspace_id_e86d2bb4_fk_engagemen FOREIGN KEY (workspace_id) REFERENCES public.engagement_workspace(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.notifications_subscription
    ADD CONSTRAINT notifications_subscr_destination_id_58d2ba6e_fk_notificat FOREIGN KEY (destination_id) REFERENCES public.notifications_destination(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.notifications_subscription
    ADD CONSTRAINT notifications_subscr_filter_segment_id_c157356e_fk_engagemen FOREIGN KEY (filter_segment_id) REFERENCES public.engagement_segment(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.notifications_subscription
    ADD CONSTRAINT notifications_subscr_product_id_8903bc1e_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.notifications_subscription
    ADD CONSTRAINT notifications_subscr_segment_id_0b9c0087_fk_engagemen FOREIGN KEY (segment_id) REFERENCES public.engagement_segment(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.notifications_subscription
    ADD CONSTRAINT notifications_subscr_watch_id_ba4e6748_fk_notificat FOREIGN KEY (watch_id) REFERENCES public.notifications_watch(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.notifications_subscription
    ADD CONSTRAINT notifications_subscr_workspace_id_d8b99dde_fk_engagemen FOREIGN KEY (workspace_id) REFERENCES public.engagement_workspace(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.notifications_watch
    ADD CONSTRAINT notifications_watch_product_id_cf6edb1d_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.notifications_watch
    ADD CONSTRAINT notifications_watch_segment_id_8b1b918c_fk_engagemen FOREIGN KEY (segment_id) REFERENCES public.engagement_segment(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.notifications_watch
    ADD CONSTRAINT notifications_watch_workspace_id_eb39ad78_fk_engagemen FOREIGN KEY (workspace_id) REFERENCES public.engagement_workspace(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.outcomes_chancelook
    ADD CONSTRAINT outcomes_chancelook_workspace_id_42cb6320_fk_engagemen FOREIGN KEY (workspace_id) REFERENCES public.engagement_workspace(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.outcomes_chancemodel
    ADD CONSTRAINT outcomes_chancemodel_product_id_5ced19e4_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.outcomes_chancemodel
    ADD CONSTRAINT outcomes_chancemodel_workspace_id_60a9d085_fk_engagemen FOREIGN KEY (workspace_id) REFERENCES public.engagement_workspace(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.outcomes_licenseoutcome
    ADD CONSTRAINT outcomes_licenseoutc_product_id_21b1318c_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.outcomes_licenserevision
    ADD CONSTRAINT outcomes_licenserevi_product_id_0506f032_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.outcomes_storedbacktest
    ADD CONSTRAINT outcomes_storedbackt_product_id_c210dcc7_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.outcomes_storedbacktest
    ADD CONSTRAINT outcomes_storedbackt_segment_id_2e3a9b82_fk_engagemen FOREIGN KEY (segment_id) REFERENCES public.engagement_segment(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.outcomes_storedbacktest
    ADD CONSTRAINT outcomes_storedbackt_workspace_id_c69a4141_fk_engagemen FOREIGN KEY (workspace_id) REFERENCES public.engagement_workspace(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.outcomes_storedforecast
    ADD CONSTRAINT outcomes_storedforec_product_id_3b11cc10_fk_engagemen FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.outcomes_storedforecast
    ADD CONSTRAINT outcomes_storedforec_workspace_id_aa8f34ea_fk_engagemen FOREIGN KEY (workspace_id) REFERENCES public.engagement_workspace(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.readapi_apitoken
    ADD CONSTRAINT readapi_apitoken_owner_id_b298b606_fk_auth_user_id FOREIGN KEY (owner_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.readapi_apitoken
    ADD CONSTRAINT readapi_apitoken_product_id_015dfe16_fk_engagement_product_id FOREIGN KEY (product_id) REFERENCES public.engagement_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.trends_dayfigures
    ADD CONSTRAINT trends_dayfigures_workspace_id_702ce8c8_fk_engagemen FOREIGN KEY (workspace_id) REFERENCES public.engagement_workspace(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.trends_segmentroster
    ADD CONSTRAINT trends_segmentroster_segment_id_f8cb3786_fk_engagemen FOREIGN KEY (segment_id) REFERENCES public.engagement_segment(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.trends_storedchanges
    ADD CONSTRAINT trends_storedchanges_segment_id_88d5319d_fk_engagemen FOREIGN KEY (segment_id) REFERENCES public.engagement_segment(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.trends_storedchanges
    ADD CONSTRAINT trends_storedchanges_workspace_id_f704b84d_fk_engagemen FOREIGN KEY (workspace_id) REFERENCES public.engagement_workspace(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.trends_storedcohorts
    ADD CONSTRAINT trends_storedcohorts_workspace_id_dad49d41_fk_engagemen FOREIGN KEY (workspace_id) REFERENCES public.engagement_workspace(id) DEFERRABLE INITIALLY DEFERRED;
