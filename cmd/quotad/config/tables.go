package config

import "quotad/quota"

// These are the tables of the file. decode.go reads them by their tags:
//
//	toml     the key; "*" takes all keys that have no field of their own
//	default  the value of an absent key, and of one whose value cannot be read
//	oneof    the strings that are allowed
//	zero     a duration may be zero
//	even     a duration may be "even"
//	any      a region may be any text
//	want     what the value must be, if the type does not say enough
//	such     a name to suggest for a table that lacks one
//	required what to write where the key is missing, which is an error
//	max      a number is from 1 to this
//	secret   what a file holds that other users of this host must not read

type fileTable struct {
	table
	Name        string                      `toml:"name"`
	StateDir    path                        `toml:"state_dir"`
	Socket      path                        `toml:"socket"`
	Ledger      ledgerTable                 `toml:"ledger"`
	Credentials map[string]*credentialTable `toml:"credentials" such:"youtube"`
	Jobs        map[string]*jobTable        `toml:"jobs" such:"trending"`
	Clients     clientGroups                `toml:"clients"`
	Passes      passesTable                 `toml:"passes"`
	Access      accessTable                 `toml:"access"`
	Metrics     listenTable                 `toml:"metrics"`
	Proxy       listenTable                 `toml:"proxy"`
	Remote      remoteTable                 `toml:"remote"`
	OnEvent     eventsTable                 `toml:"on_event"`
	Log         struct {
		table
		Level string `toml:"level" oneof:"debug info warn error" default:"info"`
	} `toml:"log"`
}

type ledgerTable struct {
	table
	Backend  string     `toml:"backend" oneof:"embedded redis" default:"embedded"`
	Sync     string     `toml:"sync" oneof:"always off" default:"always"`
	Deadline duration   `toml:"deadline" default:"250ms"`
	Redis    redisTable `toml:"redis"`
}

type redisTable struct {
	table
	Addrs        []string  `toml:"addrs"`
	MasterName   string    `toml:"master_name"`
	Username     string    `toml:"username"`
	PasswordFile contents  `toml:"password_file" secret:"the password"`
	DB           int       `toml:"db"`
	KeyPrefix    string    `toml:"key_prefix"`
	TLS          *tlsTable `toml:"tls"`
}

type tlsTable struct {
	table
	CAFile     contents `toml:"ca_file"`
	CertFile   contents `toml:"cert_file"`
	KeyFile    contents `toml:"key_file" secret:"the key of the certificate"`
	ServerName string   `toml:"server_name"`
}

type credentialTable struct {
	table
	Preset     string                 `toml:"preset"`
	Limits     map[string]*limitTable `toml:"limits" such:"daily"`
	Operations costs                  `toml:"operations"`
	Keep       duration               `toml:"keep"`
	OnOutage   outageTable            `toml:"on_outage"`
	Answers    answersTable           `toml:"answers"`
	Proxy      *targetTable           `toml:"proxy"`
}

// A targetTable says where the proxy sends the calls of a credential.
type targetTable struct {
	table
	Upstream     upstreamAddress   `toml:"upstream" required:"\"https://www.googleapis.com\""`
	KeyFile      contents          `toml:"key_file" secret:"the key"`
	KeyCommand   command           `toml:"key_command"`
	Key          string            `toml:"key" want:"\"caller\""`
	KeyHeader    string            `toml:"key_header" default:"Authorization"`
	KeyParameter string            `toml:"key_parameter"`
	Free         statuses          `toml:"free"`
	Refusals     string            `toml:"refusals" oneof:"google problem" default:"problem"`
	Routes       map[string]string `toml:"routes" required:"{ \"GET /youtube/v3/search\" = \"search.list\" }, or name a preset"`
}

// An answersTable says how the upstream words its answers.
type answersTable struct {
	table
	Reason  pointers          `toml:"reason"`
	Reasons map[string]string `toml:"reasons"`
	Refused string            `toml:"refused" oneof:"counted free" default:"counted"`
	Headers headersTable      `toml:"headers"`
}

type headersTable struct {
	table
	Limit     string `toml:"limit"`
	Used      string `toml:"used"`
	Remaining string `toml:"remaining"`
	Ratio     string `toml:"ratio"`
	Resource  string `toml:"resource"`
	Reset     string `toml:"reset"`
	ResetIs   string `toml:"reset_is" oneof:"epoch seconds duration rfc3339"`
}

type limitTable struct {
	table
	Units      quota.Units `toml:"units" required:"10_000"`
	Reserve    quota.Units `toml:"reserve"`
	Window     window      `toml:"window" default:"24h"` // of a share its pool's, if it has one
	Only       []string    `toml:"only"`
	Jobs       []string    `toml:"jobs"`
	ExceptJobs []string    `toml:"except_jobs"`
	Enforce    bool        `toml:"enforce" default:"true"`

	Upstream struct { // the upstream's own side of the limit
		table
		Names  []string `toml:"names"`
		Resets window   `toml:"resets"`
	} `toml:"upstream"`
}

// A periodTable is a window that restarts: by the calendar, or every so often from an instant.
type periodTable struct {
	table
	Calendar quota.Period `toml:"calendar" oneof:"hour day month" default:"day"`
	Timezone zone         `toml:"timezone" default:"UTC"`
	Every    duration     `toml:"every" default:"24h"`
	From     instant      `toml:"from"`
}

type outageTable struct {
	table
	Default    string         `toml:"default" oneof:"open closed" default:"closed"`
	OpenUnits  quota.Units    `toml:"open_units" max:"9007199254740991"` // quota.MaxUnits
	Operations map[string]any `toml:"*"`                                 // as Default, by the name of an operation
}

type jobTable struct {
	table
	Credential string              `toml:"credential" required:"\"…\", the one that its calls are charged to"`
	Host       string              `toml:"host"`
	Regions    ring                `toml:"regions"`
	Every      duration            `toml:"every"`
	Cron       string              `toml:"cron" want:"a cron line in quotes, such as \"*/30 * * * *\""`
	Timezone   zone                `toml:"timezone" default:"UTC"`
	Schedule   string              `toml:"schedule" want:"\"manual\""`
	After      string              `toml:"after" want:"the name of a job in quotes"`
	Stagger    duration            `toml:"stagger" default:"2s" even:"ok" zero:"ok"`
	Parallel   int                 `toml:"parallel" default:"1" max:"10000"`
	RunAtStart bool                `toml:"run_at_start"`
	Missed     string              `toml:"missed" oneof:"once skip" default:"once"`
	MaxWait    duration            `toml:"max_wait" zero:"ok"`
	Expects    calls               `toml:"expects"`
	UseReserve bool                `toml:"use_reserve"`
	Retry      int                 `toml:"retry"`
	RetryAfter duration            `toml:"retry_after" zero:"ok"`
	Command    command             `toml:"command" required:"[\"ytfetch\", \"trending\"]"`
	Dir        workDir             `toml:"dir"`
	EnvFile    contents            `toml:"env_file" secret:"the job's secrets"`
	Env        map[string]variable `toml:"env"`
	Timeout    duration            `toml:"timeout" default:"5m"`
}

// gone has what to write in place of a key that quotad knew before, by the type of its table and its
// name.
var gone = map[string]string{
	"ledgerTable.on_violation":      "remove it: quotad no longer checks its own books while it runs",
	"limitTable.lift":               "remove it: at that hour, edit units of the limit, then quotactl reload",
	"jobTable.missed_within":        `remove it: with missed = "once" one run makes up for missed slots until the next slot, and for a day at most`,
	"jobTable.on_failure":           "remove it: a run continues after a region that failed; a command that exits with 75 ends it",
	"jobTable.expect_success":       "remove it: a scheduled job fails that has no good run within three periods, at least 26 h",
	"eventsTable.overdue_began":     "write job_failing: it also reports a job without a good run",
	"eventsTable.overdue_ended":     "remove it: quotactl status shows what has ended",
	"jobTable.items":                "write regions: they may be any texts",
	"jobTable.offset":               `write the minutes into a cron line in place of every: cron = "7,37 * * * *"`,
	"jobTable.kill_grace":           "remove it: a pass has 10 seconds from TERM to KILL",
	"jobTable.denied_grace":         "remove it: a pass may continue for 30 seconds after it was denied what does not fit before its timeout",
	"jobTable.units_per_run":        `give the job a share in place of it: limits.own = { units = 400, window = "1h", jobs = ["NAME"] }`,
	"jobTable.exhausted_exit_codes": "remove it, and have the command exit with 75 when the budget is gone",
	"eventsTable.counts_differ":     "remove it: what the upstream counts is a metric, quotad_limit_drift_units",
	"clientsTable.subjects":         "remove it: subjects are always kept as hashes",
	"targetTable.billing":           "write free = [304] where an answer with that status costs nothing, else remove it",
	"targetTable.dialect":           `write refusals = "google", or "problem"`,
	"limitTable.callers":            `write "@shop" in jobs`,
	"callerTable.rate":              "remove it: a limit with jobs = [\"@NAME\"] and a short window bounds a caller",
	"remoteTable.behind":            "remove it: without cert_file, quotad answers a proxy on this host",
	"passesTable.parallel":          "remove it, and set parallel in each job",
}

type clientGroups struct {
	table
	SecretFile contents                 `toml:"secret_file" secret:"the secret"`
	Groups     map[string]*clientsTable `toml:"*" such:"public"`
}

// A clientsTable has either one limit in its own keys or several in limits.
type clientsTable struct {
	table
	Units      quota.Units                  `toml:"units"`
	Window     window                       `toml:"window"`
	Enforce    bool                         `toml:"enforce" default:"true"`
	Limits     map[string]*clientLimitTable `toml:"limits" such:"minute"`
	Algorithm  string                       `toml:"algorithm" oneof:"log counter" default:"log"`
	Operations calls                        `toml:"operations"`
	OnOutage   string                       `toml:"on_outage" oneof:"open closed" default:"open"`
}

type clientLimitTable struct {
	table
	Units   quota.Units `toml:"units"`
	Window  window      `toml:"window"`
	Enforce bool        `toml:"enforce" default:"true"`
}

type passesTable struct {
	table
	Drain   duration `toml:"drain" default:"30s" zero:"ok"`
	Cgroups cgroups  `toml:"cgroups" default:"auto"`
	User    passUser `toml:"user"`
}

type accessTable struct {
	table
	AdminGroup         group `toml:"admin_group"`
	Connections        int   `toml:"connections" default:"1024" max:"100000"` // most systems allow a process half a million descriptors
	ConnectionsPerUser int   `toml:"connections_per_user" default:"256"`
}

type listenTable struct {
	table
	Listen loopback `toml:"listen"`
}

type remoteTable struct {
	table
	Listen   anyAddress              `toml:"listen"`
	CertFile readable                `toml:"cert_file"`
	KeyFile  readable                `toml:"key_file" secret:"the key of the certificate"`
	Callers  map[string]*callerTable `toml:"callers" such:"shop"`
}

type callerTable struct {
	table
	TokenFile   tokenFile `toml:"token_file" required:"\"shop.token\", which holds what openssl rand -hex 32 prints" secret:"a token"`
	Credentials []string  `toml:"credentials"`
	Operations  []string  `toml:"operations"`
	Subjects    []string  `toml:"subjects"`
}

type eventsTable struct {
	table
	NearLimit   command `toml:"near_limit"`
	Exhausted   command `toml:"exhausted"`
	OutageBegan command `toml:"outage_began"`
	OutageEnded command `toml:"outage_ended"`
	JobFailing  command `toml:"job_failing"`
	RunStarted  command `toml:"run_started"`
	RunEnded    command `toml:"run_ended"`

	LimitClosed     command `toml:"limit_closed"`
	UpstreamRefuses command `toml:"upstream_refuses"`
	Overspent       command `toml:"overspent"`

	Timeout duration `toml:"timeout" default:"30s"`
}
