package config

import (
	"time"

	"quotad/jobs"
	"quotad/jobs/process"
	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/proxy"
	"quotad/quota/redisledger"
	"quotad/quota/server"
	"quotad/quota/upstream"
)

// These are the tables of the file. decode.go reads them by their tags. Where a table is what another package works with,
// that package's struct is a part of it, with tags of its own.
//
//	toml     the key; "*" takes all keys that have no field of their own
//	is       what a text must be, see texts.go; "not" of a bool: true in the file is false here
//	default  the value of an absent key, and of one whose value cannot be read
//	oneof    the strings that are allowed
//	zero     a duration may be zero
//	even     a duration may be "even"
//	by       "operation": the keys of the table are operations
//	want     what the value must be, if the type does not say enough
//	such     a name to suggest for a table that lacks one
//	required what to write where the key is missing, which is an error
//	max      a number is from 1 to this
//	secret   what a file holds that other users of this host must not read

type fileTable struct {
	table
	Name        string                      `toml:"name"`
	StateDir    string                      `toml:"state_dir" is:"path"` // need not exist yet
	Socket      string                      `toml:"socket" is:"path"`
	Ledger      Ledger                      `toml:"ledger"`
	Credentials map[string]*credentialTable `toml:"credentials" such:"youtube"`
	Jobs        map[string]*jobTable        `toml:"jobs" such:"trending"`
	Clients     clientGroups                `toml:"clients"`
	Passes      Passes                      `toml:"passes"`
	Access      Access                      `toml:"access"`
	Metrics     listenTable                 `toml:"metrics"`
	Proxy       listenTable                 `toml:"proxy"`
	Remote      Remote                      `toml:"remote"`
	OnEvent     OnEvent                     `toml:"on_event"`
	Log         struct {
		Level string `toml:"level" oneof:"debug info warn error" default:"info"`
	} `toml:"log"`
}

// A Ledger says where the log of debits is kept.
type Ledger struct {
	table
	Backend  string        `toml:"backend" oneof:"embedded redis" default:"embedded"`
	Deadline time.Duration `toml:"deadline" default:"250ms"` // for one decision
	Redis    redisTable    `toml:"redis"`
}

type redisTable struct {
	table
	redisledger.Config
	PasswordFile contents  `toml:"password_file" secret:"the password"`
	TLSTable     *tlsTable `toml:"tls"`
}

type tlsTable struct {
	table
	CAFile   contents `toml:"ca_file"`
	CertFile string   `toml:"cert_file" is:"file"`
	KeyFile  string   `toml:"key_file" is:"file" secret:"the key of the certificate"`
}

type credentialTable struct {
	table
	Preset string                 `toml:"preset"`
	Limits map[string]*limitTable `toml:"limits" such:"daily"`
	quota.Credential
	OnOutage outageTable  `toml:"on_outage"`
	Answers  answersTable `toml:"answers"`
	Proxy    *targetTable `toml:"proxy"`
}

type limitTable struct {
	table
	quota.Limit
	WarnBelow quota.Units          `toml:"warn_below"`
	Upstream  upstream.Counterpart `toml:"upstream"`
}

// A targetTable says where the proxy sends the calls of a credential.
type targetTable struct {
	table
	Address    string   `toml:"upstream" is:"url" required:"\"https://api.example.com\", the address of the API"`
	KeyFile    contents `toml:"key_file" secret:"the key"`
	KeyCommand []string `toml:"key_command" is:"command" such:"[\"/usr/local/bin/token\"]"`
	Caller     string   `toml:"key" want:"\"caller\""`
	proxy.Target
	Routes map[string]string `toml:"routes" required:"{ \"GET /youtube/v3/search\" = \"search.list\" }, or name a preset"`
}

// An answersTable says how the upstream words its answers.
type answersTable struct {
	upstream.Format
	Refused string `toml:"refused" oneof:"counted free" default:"counted"`
}

// A periodTable is a window that restarts: by the calendar, or every so often from an instant.
type periodTable struct {
	table
	Calendar quota.Period   `toml:"calendar" oneof:"hour day month" default:"day"`
	Timezone *time.Location `toml:"timezone" default:"UTC"`
	Every    time.Duration  `toml:"every" default:"24h"`
	From     time.Time      `toml:"from"`
}

type outageTable struct {
	table
	Default    string            `toml:"default" oneof:"open closed" default:"closed"`
	OpenUnits  quota.Units       `toml:"open_units" max:"9007199254740991"` // quota.MaxUnits
	Operations map[string]string `toml:"*" by:"operation" oneof:"open closed"`
}

// A jobTable has what decides when a job runs in keys of its own: see schedule.
type jobTable struct {
	table
	Every    time.Duration  `toml:"every"`
	Cron     string         `toml:"cron" want:"a cron line in quotes, such as \"*/30 * * * *\""`
	Timezone *time.Location `toml:"timezone" default:"UTC"`
	Schedule string         `toml:"schedule" want:"\"manual\""`
	jobs.Job
	Missed  string   `toml:"missed" oneof:"once skip" default:"once"`
	EnvFile contents `toml:"env_file" secret:"the job's secrets"`
}

// gone has what to write in place of a key that quotad knew before, by the type of its table and its name; "*" are all
// names that are like none of today's.
var gone = map[string]string{
	"Ledger.on_violation":           "remove it: quotad no longer checks its own books while it runs",
	"Ledger.sync":                   "remove it: each grant is on the disk before it is answered",
	"redisTable.db":                 "remove it: key_prefix keeps what others have in the same Redis apart",
	"tlsTable.server_name":          "write the name in the certificate into addrs",
	"limitTable.lift":               "remove it: at that hour, edit units of the limit, then quotactl reload",
	"limitTable.callers":            `write "@shop" in jobs`,
	"jobTable.missed_within":        `remove it: with missed = "once" a run makes up for slots of a day at most`,
	"jobTable.on_failure":           "remove it: a run continues after a region that failed; a command that exits with 75 ends it",
	"jobTable.kill_grace":           "remove it: a pass has 10 seconds from TERM to KILL",
	"jobTable.denied_grace":         "remove it: a pass that was denied may continue for 30 seconds",
	"jobTable.expect_success":       "remove it: a scheduled job fails that has no good run within three periods, at least 26 h",
	"jobTable.items":                "write regions: they may be any texts",
	"jobTable.offset":               `write the minutes into a cron line in place of every: cron = "7,37 * * * *"`,
	"jobTable.parallel":             "remove it: a run serves one region after the other; split the regions over two jobs",
	"jobTable.units_per_run":        `give the job a share in place of it: limits.own = { units = 400, window = "1h", jobs = ["NAME"] }`,
	"jobTable.exhausted_exit_codes": "remove it, and have the command exit with 75 when the budget is gone",
	"OnEvent.near_limit":            `write warn_below = 500 in the limit, and "low" in kinds`,
	"OnEvent.exhausted":             `write warn_below = 1 in the limit, and "low" in kinds`,
	"OnEvent.run_started":           `write command once, and "run_started" in kinds`,
	"OnEvent.run_ended":             `write command once, and "run_ended" in kinds`,
	"OnEvent.*":                     "write command once: it runs for the beginning and the end of each trouble",
	"OnEvent.timeout":               "remove it: a command has 30 seconds",
	"clientsTable.subjects":         "remove it: subjects are always kept as hashes",
	"Headers.ratio":                 "remove it: name the headers of limit, used and remaining",
	"targetTable.billing":           "write free = [304] where an answer with that status costs nothing, else remove it",
	"targetTable.dialect":           `write refusals = "google", or "problem"`,
	"callerTable.rate":              "remove it: a limit with jobs = [\"@NAME\"] and a short window bounds a caller",
	"Remote.behind":                 "remove it: without cert_file, quotad answers a proxy on this host",
	"Passes.parallel":               "remove it: a run serves one region after the other",
	"Passes.cgroups":                "remove it: each pass has a cgroup of its own where systemd delegates one",
	"Access.connections":            "remove it: quotad answers 1,024 connections at once",
	"Access.connections_per_user":   "remove it: one user has at most 256 of the 1,024 connections",
}

type clientGroups struct {
	table
	SecretFile contents                 `toml:"secret_file" secret:"the secret"`
	Groups     map[string]*clientsTable `toml:"*" such:"public"`
}

// A clientsTable has either one limit in its own keys or several in limits.
type clientsTable struct {
	table
	clientLimit
	Limits map[string]clientLimit `toml:"limits" such:"minute"`
	clientlimit.Clients
	OnOutage string `toml:"on_outage" oneof:"open closed" default:"open"`
}

type clientLimit struct {
	Units  quota.Units  `toml:"units"`
	Window quota.Window `toml:"window"`
	DryRun bool         `toml:"enforce" default:"true" is:"not"`
}

// Passes has the settings for the passes of all jobs together.
type Passes struct {
	table
	// Drain is how long those under way may continue when the daemon stops.
	Drain time.Duration `toml:"drain" default:"30s" zero:"ok"`
	// CgroupRoot is the directory of the cgroup in which each pass gets one of its own; empty: none gets one.
	CgroupRoot string
	// User is the one that passes run as; nil: the user that quotad runs as.
	User *process.User `toml:"user"`
}

// An Access says who may operate quotad.
type Access struct {
	AdminGroup string `toml:"admin_group" is:"group"` // its members may do what root may; empty: the API's default
}

type listenTable struct {
	Listen string `toml:"listen" is:"loopback"`
}

// A Remote says where callers from other hosts are answered.
type Remote struct {
	table
	Listen   string                  `toml:"listen" is:"address"` // empty: nowhere
	CertFile string                  `toml:"cert_file" is:"file"` // empty: plain HTTP, on a loopback or private address
	KeyFile  string                  `toml:"key_file" is:"file" secret:"the key of the certificate"`
	Callers  map[string]*callerTable `toml:"callers" such:"shop"`
}

type callerTable struct {
	table
	TokenFile tokenFile `toml:"token_file" required:"\"shop.token\", which holds what openssl rand -hex 32 prints" secret:"a token"`
	server.RemoteCaller
}

// An OnEvent says which command runs for which events.
type OnEvent struct {
	table
	// Command is the program as a path, and its arguments; nil: none runs.
	Command   []string               `toml:"command" is:"command" such:"[\"/usr/local/bin/notify\"]; to run none, leave the key out"`
	Kinds     []string               `toml:"kinds"`
	WarnBelow map[string]quota.Units // by "credential limit"
}
