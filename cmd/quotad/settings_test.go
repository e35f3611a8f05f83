package main

import (
	"crypto/tls"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/jobs"
	"quotad/jobs/process"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/redisledger"
	"quotad/regions"
)

// full returns a configuration in which nothing is left out.
func full() *config.Config {
	every, err := jobs.NewEvery(time.Hour, 0)
	if err != nil {
		panic(err)
	}
	return &config.Config{
		StateDir: "/state", Socket: "/socket", LogLevel: "info", Metrics: "127.0.0.1:9464",
		Access: config.Access{AdminGroup: "admin", Connections: 10, ConnectionsPerUser: 5},
		Ledger: config.Ledger{
			Backend: config.OnRedis, Deadline: time.Second,
			Redis: redisledger.Config{Addrs: []string{"redis:6379"}, TLS: &tls.Config{}},
		},
		Credentials: []*quota.Credential{{
			Name:       "youtube",
			Limits:     []quota.Limit{{Name: "daily", Units: 10_000, Reserve: 500, Window: quota.Sliding(24 * time.Hour), Only: []string{"videos.list"}}},
			Operations: map[string]quota.Cost{"videos.list": {Every: 1}, "search.list": {Per: map[string]quota.Units{"daily": 100}}},
		}},
		Outages: map[string]config.Outage{"youtube": {Open: map[string]bool{"videos.list": true}, Units: 50}},
		Passes: config.Passes{
			Parallel: 1, Drain: time.Second, CgroupRoot: "/sys/fs/cgroup/quotad",
			User: &process.User{Name: "jobs", Home: "/", UID: 33, GID: 33, Groups: []int{33}},
		},
		Jobs: []*jobs.Job{{
			Name: "trending", Credential: "youtube", Regions: regions.Ring{"US"}, Schedule: every,
			Expects: map[string]quota.Units{"videos.list": 4}, Command: []string{"/bin/fetch"}, Env: map[string]string{"KEY": "secret"},
		}},
		OnEvent: config.OnEvent{Commands: map[config.Event][]string{config.NearLimit: {"/bin/mail"}}, Timeout: time.Second},
	}
}

// elsewhere are the fields that a reload need not find: what the file is called,
// what the daemon adds to it, and what means nothing beside a cost per limit.
var elsewhere = []string{"File", "Ledger.Redis.Daemon", "Credentials[0].Operations[search.list].Every"}

// A change of any field of a configuration is either told or refused: a field
// that is new must not be passed over.
func TestEveryFieldIsCompared(t *testing.T) {
	for _, path := range leaves(reflect.ValueOf(full()).Elem(), "") {
		t.Run(path, func(t *testing.T) {
			was, is := full(), full()
			if !change(reflect.ValueOf(is).Elem(), "", path) {
				t.Fatal("the test cannot change it")
			}
			d := &daemon{}
			seen := d.checkFixed(was, is) != nil || len(compare(settingsOf(was), settingsOf(is))) > 0
			if seen == slices.Contains(elsewhere, path) {
				t.Errorf("seen: %v", seen)
			}
		})
	}
	d := &daemon{}
	if err := d.checkFixed(full(), full()); err != nil || len(compare(settingsOf(full()), settingsOf(full()))) > 0 {
		t.Errorf("the same is not the same: %v, %v", err, compare(settingsOf(full()), settingsOf(full())))
	}
}

// leaves returns the paths of all exported fields that hold no fields themselves.
func leaves(v reflect.Value, path string) []string {
	var paths []string
	walk(v, path, func(path string, _ reflect.Value) bool {
		paths = append(paths, path)
		return false
	})
	return paths
}

// change changes the field at a path.
func change(v reflect.Value, prefix, path string) bool {
	return walk(v, prefix, func(at string, field reflect.Value) bool {
		if at != path {
			return false
		}
		alter(field)
		return true
	})
}

// walk visits fields until visit is true for one.
func walk(v reflect.Value, path string, visit func(string, reflect.Value) bool) bool {
	switch {
	case v.Type() == reflect.TypeFor[*tls.Config]() || v.Kind() == reflect.Interface || v.Type() == reflect.TypeFor[quota.Window]():
		return visit(path, v)
	case v.Kind() == reflect.Pointer:
		return walk(v.Elem(), path, visit)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if field.IsExported() && walk(v.Field(i), join(path, field.Name), visit) {
				return true
			}
		}
		return false
	case v.Kind() == reflect.Map && v.Type().Elem().Kind() == reflect.Struct:
		for _, key := range v.MapKeys() {
			elem := reflect.New(v.Type().Elem()).Elem()
			elem.Set(v.MapIndex(key))
			if walk(elem, fmt.Sprintf("%s[%v]", path, key), visit) {
				v.SetMapIndex(key, elem)
				return true
			}
		}
		return false
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.String && v.Len() > 0:
		for i := range v.Len() {
			if walk(v.Index(i), fmt.Sprintf("%s[%d]", path, i), visit) {
				return true
			}
		}
		return false
	}
	return visit(path, v)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// alter gives a field another value.
func alter(v reflect.Value) {
	switch v.Interface().(type) {
	case quota.Window:
		v.Set(reflect.ValueOf(quota.Sliding(time.Hour)))
		return
	case *tls.Config:
		v.Set(reflect.ValueOf(&tls.Config{ServerName: "another"}))
		return
	case jobs.Schedule:
		another, _ := jobs.NewEvery(time.Minute, 0)
		v.Set(reflect.ValueOf(another))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("another")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Slice:
		v.Set(reflect.Append(v, another(v.Type().Elem())))
	case reflect.Map:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		v.SetMapIndex(another(v.Type().Key()), another(v.Type().Elem()))
	default:
		panic("a " + v.Kind().String() + ": teach the test to change it")
	}
}

// another is a value of a type, not a usual one.
func another(of reflect.Type) reflect.Value {
	v := reflect.New(of).Elem()
	switch of.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64:
		alter(v)
	}
	return v
}

// What is told of a difference says what it was and is, unless that may be secret.
func TestCompare(t *testing.T) {
	was, is := full(), full()
	is.Credentials[0].Limits[0].Units = 5_000
	is.Credentials[0].Operations["search.list"] = quota.Cost{Every: 100}
	delete(is.Credentials[0].Operations, "videos.list")
	is.Jobs[0].Env["KEY"] = "changed"
	is.Jobs[0].Regions = regions.Ring{"US", "GB"}
	added := *is.Jobs[0]
	added.Name = "page"
	is.Jobs = append(is.Jobs, &added)
	want := []api.Change{
		{Key: "credentials.youtube.limits.daily", Kind: api.Changed,
			Was: "10,000 units in any 24h, 500 in reserve, only videos.list", Is: "5,000 units in any 24h, 500 in reserve, only videos.list"},
		{Key: `credentials.youtube.operations."search.list"`, Kind: api.Changed, Was: "100 daily", Is: "100"},
		{Key: `credentials.youtube.operations."videos.list"`, Kind: api.Removed, Was: "1"},
		{Key: "jobs.page", Kind: api.Added},
		{Key: "jobs.trending.env", Kind: api.Changed},
		{Key: "jobs.trending.regions", Kind: api.Changed, Was: "[US]", Is: "[US GB]"},
	}
	if got := compare(settingsOf(was), settingsOf(is)); !slices.Equal(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

func TestFixedSettings(t *testing.T) {
	was, is := full(), full()
	is.StateDir, is.Ledger.Redis.Password = "/elsewhere", "new"
	d := &daemon{}
	const want = "state_dir, ledger.redis.password_file (or what stands in it) cannot change while quotad runs: restart it, or leave that as it was"
	if err := d.checkFixed(was, is); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	// Another ledger than the one in Redis has no use for its settings.
	was.Ledger.Backend, is.Ledger.Backend, is.StateDir = config.Embedded, config.Embedded, was.StateDir
	if err := d.checkFixed(was, is); err != nil {
		t.Errorf("got %v, want no objection", err)
	}
}
