package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"quotad/quota/api"
	"quotad/quota/redisledger/redistest"
)

// Recognisable secrets. The third one, a run token, is made by the daemon.
const (
	apiKey   = "Secret-api-key-9b1f"
	password = "Secret-password-77c2"
)

// A pass that does all it may with its token, prints it, and shows it to the test alone.
const withSecrets = `
passes.drain = "1ms"
[log]
level = "debug"
[metrics]
listen = "127.0.0.1:0"
%s
[on_event]
command = ["sh", "-c", "env; cat"]
[credentials.api]
limits.daily.units = 100
operations.list = 1
[jobs.fetch]
credential = "api"
regions = ["one", "two"]
cron = "$FAR * * *"
parallel = 2
stagger = "1ms"
run_at_start = true
expects.list = 1
env_file = "key.env"
command = ["sh", "-c", """
quotactl settle $(quotactl acquire list -o json | grep grant_id | cut -d '"' -f 4) 1 || exit 4
quotactl acquire no-such-operation
test ${#API_KEY} = ${KEY_LENGTH} || exit 3
test $QUOTAD_REGION = one || exit 1
echo "I am $QUOTAD_TOKEN and call with $API_KEY"
echo $QUOTAD_TOKEN >$TOKEN_FILE.new
mv $TOKEN_FILE.new $TOKEN_FILE
sleep 600; true"""]
`

// TestSecretsStaySecret looks for secrets wherever others could look.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--rdbcompression", "no")
	server.Do(t, "ACL", "SETUSER", "quotad", "on", ">"+password, "~*", "&*", "+@all")
	ledger := fmt.Sprintf("[ledger]\nbackend = \"redis\"\nredis = { addrs = [%q], username = \"quotad\", password_file = \"password\" }", server.Addr)
	checkSecrets(t, ledger, func() []byte { return dump(t, server) })
}

// checkSecrets runs a daemon with secrets and looks through what it leaves and
// tells; dump returns what else the ledger holds.
func checkSecrets(t *testing.T, ledger string, dump func() []byte) {
	dir, tokenFile := shortDir(t), filepath.Join(shortDir(t), "token")
	for name, text := range map[string]string{
		"config.toml": fmt.Sprintf(withSecrets, ledger),
		"password":    password + "\n",
		"key.env":     fmt.Sprintf("API_KEY=%s\nKEY_LENGTH=%d\nTOKEN_FILE=%s\n", apiKey, len(apiKey), tokenFile),
	} {
		write(t, dir, name, text)
	}
	daemon := startIn(t, dir)
	token := awaitFile(t, tokenFile)
	daemon.logs(t, "^event command done$")
	client := &api.Client{Socket: filepath.Join(dir, ".quotad/quotad.sock"), Token: token}
	answers := everyAnswer(t, client)
	arguments := everyArgument(t)
	daemon.stop(t)
	log := daemon.whole()
	if !strings.Contains(log, "pass begins") || !strings.Contains(log, "settle granted") || !strings.Contains(log, "I am *** and call with ***") {
		t.Errorf("the log is not a log of everything:\n%s", daemon.text())
	}
	for what, content := range map[string][]byte{
		"log": []byte(log), "answers": answers, "arguments": arguments, "ledger": dump(), "state": everyFile(t, filepath.Join(dir, ".quotad")),
	} {
		search(t, what, content, apiKey, password, token)
	}
	if ledger == "" {
		return
	}
	// With another password the daemon starts, and complains.
	write(t, dir, "password", password+"-wrong")
	wrong := startIn(t, dir)
	wrong.logs(t, "^the ledger does not decide yet: ", "ledger=.*WRONGPASS.*")
	search(t, "log of a daemon with a wrong password", []byte(wrong.whole()), password)
}

// search reports where a secret stands.
func search(t *testing.T, what string, content []byte, secrets ...string) {
	t.Helper()
	for _, secret := range secrets {
		if i := bytes.Index(content, []byte(secret)); i >= 0 {
			t.Errorf("%s: a secret stands behind %q", what, content[max(0, i-200):i])
		}
	}
}

// everyAnswer asks every route that reads, and some that refuse, with the token.
func everyAnswer(t *testing.T, client *api.Client) []byte {
	t.Helper()
	var list struct{ Routes []route }
	must(t, client.Get(context.Background(), "/v1", &list))
	all := fmt.Appendln(nil, list)
	names := strings.NewReplacer("{name}", "api", "{job}", "fetch", "{run}", "no-such")
	for _, r := range list.Routes {
		if r.Path == "/metrics" {
			all = fmt.Appendln(all, scrape(t, client))
			continue
		}
		var answer any
		path := names.Replace(r.Path)
		if r.Method == "GET" {
			path += "?operation=list"
		}
		err := client.Do(context.Background(), r.Method, path, nil, &answer)
		all = fmt.Appendln(all, r.Method, path, answer, err)
	}
	if len(all) < 1000 {
		t.Errorf("the daemon answered next to nothing: %s", all)
	}
	return all
}

// everyArgument returns the command lines of all processes.
func everyArgument(t *testing.T) []byte {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	var all []byte
	for _, file := range files {
		text, _ := os.ReadFile(file) // it may have ended
		all = append(all, text...)
	}
	if !bytes.Contains(all, []byte("quotad")) {
		t.Error("no process has a command line")
	}
	return all
}

func everyFile(t *testing.T, dir string) []byte {
	t.Helper()
	var all []byte
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		all = append(append(all, path...), text...)
		return err
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("the state directory holds %d bytes: %v", len(all), err)
	}
	return all
}

// dump returns what a Redis holds.
func dump(t *testing.T, server *redistest.Server) []byte {
	t.Helper()
	keys, _ := server.Do(t, "KEYS", "*").([]any)
	if len(keys) == 0 {
		t.Fatal("Redis holds nothing")
	}
	var all []byte
	for _, key := range keys {
		all = fmt.Append(all, key, server.Do(t, "DUMP", fmt.Sprint(key)))
	}
	return all
}

// whole is the log from the start of the daemon until now.
func (c *child) whole() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.log, "\n")
}

// Arguments show in a process list, to every user: no example puts a token there.
func TestExamplesShowNoToken(t *testing.T) {
	shown := regexp.MustCompile(`\s(-H|--header|-u\s|--oauth2-bearer)[ =]*["']?[^@\n]*\$\{?(QUOTAD_TOKEN|QUOTAD_PROXY|TOKEN)\b`)
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".md", ".toml", ".conf", ".txtar", ".sh"}, filepath.Ext(path)) {
			return err
		}
		text, err := os.ReadFile(path)
		if line := shown.Find(text); line != nil {
			t.Errorf("%s: %s", path, line)
		}
		return err
	})
	must(t, err)
}
