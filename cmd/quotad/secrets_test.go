package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/jobs"
	"quotad/jobs/process"
	"quotad/quota/api"
	"quotad/quota/redisledger/redistest"
)

// Recognisable secrets: of a job's environment, of Redis, of the proxy by a file and by a command, and of the job itself.
const (
	apiKey    = "Secret-api-key-9b1f"
	password  = "Secret-password-77c2"
	fileKey   = "Secret-file-key-52e0"
	mintedKey = "Secret-minted-key-c41d"
	ownKey    = "Secret-own-key-0f3a"
)

// A pass that does all it may with its token, prints it, calls through the proxy, and shows its address to the test alone.
const withSecrets = `
passes.drain = "1ms"
[ledger]
backend = "redis"
deadline = "5s"
redis = { addrs = [%[1]q], username = "quotad", password_file = "password" }
[log]
level = "debug"
[proxy]
listen = "127.0.0.1:0"
[on_event]
command = ["sh", "-c", "env; cat"]
[credentials.file]
limits.daily.units = 100
operations.list = 1
proxy = { upstream = %[2]q, key_file = "file.key", routes = { "GET /list/**" = "list" } }
[credentials.minted]
limits.daily.units = 100
operations.list = 1
proxy = { upstream = %[2]q, key_command = ["sh", "-c", "echo %[3]s; echo %[3]s >&2"], routes = { "GET /list/**" = "list" } }
[credentials.own]
limits.daily.units = 100
operations.list = 1
proxy = { upstream = %[2]q, key = "caller", routes = { "GET /list/**" = "list" } }
`

const secretiveJob = `
[jobs.%[1]s]
credential = %[1]q
regions = ["one"]
cron = "$FAR * * *"
run_at_start = true
timeout = "1h"
env_file = "key.env"
command = ["sh", "-c", """
quotactl acquire list && quotactl acquire no-such-operation
test -n "$API_KEY" || exit 3
echo "I am $QUOTAD_TOKEN and call with $API_KEY"
echo $QUOTAD_PROXY >$ADDRESSES/%[1]s.new
mv $ADDRESSES/%[1]s.new $ADDRESSES/%[1]s
sleep 600; true"""]
`

// leak is an upstream that shows the key in each way that an error can.
func leak(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Authorization")
	raw := func(text string) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			defer conn.Close()
			io.WriteString(conn, text)
			if strings.HasSuffix(r.URL.Path, "/unasked") {
				io.Copy(io.Discard, conn) // until the proxy has read it, and hung up
			}
		}
	}
	switch strings.TrimPrefix(r.URL.Path, "/list/") {
	case "nonsense":
		raw(key + "\r\n\r\n")
	case "bad-chunk":
		raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + key + "\r\n")
	case "unasked":
		raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 " + key + "\r\n\r\n")
	default:
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error":{"code":401,"message":"the key %s is not valid","errors":[{"reason":"authError"}],"status":"UNAUTHENTICATED"}}`, key)
	}
}

// TestSecretsStaySecret looks for secrets wherever others could look: in the log, the commands of events, what the API
// answers, the arguments of processes, Redis, and the state directory.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--rdbcompression", "no")
	server.Do(t, "ACL", "SETUSER", "quotad", "on", ">"+password, "~*", "&*", "+@all")
	upstream := httptest.NewServer(http.HandlerFunc(leak))
	defer upstream.Close()
	dir, addresses := shortDir(t), shortDir(t)
	text := fmt.Sprintf(withSecrets, server.Addr, upstream.URL, mintedKey)
	names := []string{"file", "minted", "own"}
	for _, name := range names {
		text += fmt.Sprintf(secretiveJob, name)
	}
	for name, text := range map[string]string{
		"config.toml": text, "password": password + "\n", "file.key": fileKey, "key.env": fmt.Sprintf("API_KEY=%s\nADDRESSES=%s\n", apiKey, addresses),
	} {
		write(t, dir, name, text)
	}
	daemon := startIn(t, dir)
	secrets, answers := []string{apiKey, password, fileKey, mintedKey, ownKey}, []byte{}
	for _, name := range names {
		address := awaitFile(t, filepath.Join(addresses, name))
		for _, way := range []string{"nonsense", "bad-chunk", "unasked", "refusal"} {
			r, err := http.NewRequest("GET", address+"list/"+way, nil)
			must(t, err)
			r.Header.Set("Authorization", "Bearer "+ownKey)
			answer, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				continue // the proxy hangs up, too
			}
			body, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			if name != "own" { // what a job sends of its own may come back to it
				answers = fmt.Append(answers, answer.Status, answer.Header, string(body))
			}
		}
		client := clientIn(dir)
		client.Token = strings.Split(address, "/")[3]
		secrets = append(secrets, client.Token)
		answers = append(answers, everyAnswer(t, client, name)...)
	}
	daemon.logs(t, "^event command done$")
	arguments := everyArgument(t)
	must(t, daemon.halt())
	log := daemon.whole()
	for _, says := range []string{"pass begins", "acquire granted", "I am *** and call with ***", "QUOTAD_SAYS=", "ReverseProxy read error", "Unsolicited response"} {
		if !strings.Contains(log, says) {
			t.Errorf("the log is not a log of everything, it lacks %q:\n%s", says, daemon.text())
		}
	}
	for what, content := range map[string][]byte{
		"log": []byte(log), "answers": answers, "arguments": arguments, "Redis": dump(t, server), "state": everyFile(t, filepath.Join(dir, ".quotad")),
	} {
		for _, secret := range secrets {
			if i := bytes.Index(content, []byte(secret)); i >= 0 {
				t.Errorf("%s: a secret stands behind %q", what, content[max(0, i-200):i])
			}
		}
	}
}

// everyAnswer asks every route that reads, and some that refuse, with the token.
func everyAnswer(t *testing.T, client *api.Client, name string) []byte {
	t.Helper()
	var all []byte
	names := strings.NewReplacer("{name}", name, "{job}", name, "{run}", "no-such")
	for _, r := range routesOf(t, client) {
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
	return all
}

// everyArgument returns the command lines of all processes but of the shell that prints a key for this test.
func everyArgument(t *testing.T) []byte {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	var all []byte
	for _, file := range files {
		if text, _ := os.ReadFile(file); !bytes.Contains(text, []byte("echo "+mintedKey)) { // it may have ended
			all = append(all, text...)
		}
	}
	return all
}

func everyFile(t *testing.T, dir string) (all []byte) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		all = append(append(all, path...), text...)
		return err
	}))
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

// Arguments show in a process list, to every user: no example puts a token there.
func TestExamplesShowNoToken(t *testing.T) {
	shown := regexp.MustCompile(`\s(-H|--header|-u\s|--oauth2-bearer)[ =]*["']?[^@\n]*\$\{?(QUOTAD_TOKEN|QUOTAD_PROXY|TOKEN)\b`)
	must(t, filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".md", ".toml", ".conf", ".txtar", ".sh"}, filepath.Ext(path)) {
			return err
		}
		text, err := os.ReadFile(path)
		if line := shown.Find(text); line != nil {
			t.Errorf("%s: %s", path, line)
		}
		return err
	}))
}

// What a command may print as a key, and what is said of anything else.
func TestWhatAKeyCommandPrints(t *testing.T) {
	const key = "The-only-key-0123456789"
	const noJSON = `what it printed must be a key, or {"key": "…", "expires": "2026-01-01T12:00:00Z"}`
	for _, c := range []struct{ name, script, want, ends string }{
		{"a key", "echo " + key, key, ""},
		{"a key between empty lines", "echo; echo '  " + key + " '; echo", key, ""},
		{"JSON", `echo '{"key": "` + key + `", "expires": "2030-01-01T12:00:00+01:00", "token_type": "Bearer"}'`, key, "2030-01-01T11:00:00Z"},
		{"two lines", "echo " + key + "; echo " + key + "2", "what it printed must hold the key on a line by itself, and nothing else", ""},
		{"nothing", "true", "what it printed is empty: it must hold the key", ""},
		{"not JSON", "echo '{" + key + "'", noJSON, ""},
		{"JSON without a key", `echo '{"token": "` + key + `"}'`, "key in what it printed is empty: it must hold the key", ""},
		{"an end in words", `echo '{"key": "` + key + `", "expires": "in an hour"}'`, noJSON, ""},
		{"a failure", "echo " + key + "; echo one >&2; echo 'no: " + key + "' >&2; exit 4", "it ended with exit code 4: no: " + strings.Repeat("*", len(key)), ""},
		{"a failure that escapes the key", "echo Se+cret/Key==; echo 'no: Se%2Bcret%2FKey%3D%3D' >&2; exit 4",
			"it ended with exit code 4: no: " + strings.Repeat("*", 21), ""},
		{"a failure that repeats the key of its JSON", `echo '{"key":"` + key + `"}'; echo 'no: ` + key + `' >&2; exit 3`,
			"it ended with exit code 3: no: " + strings.Repeat("*", len(key)), ""},
		{"a silent failure", "exit 4", "it ended with exit code 4: it wrote nothing", ""},
		{"a signal", "kill -9 $$", "it ended with SIGKILL: it wrote nothing", ""},
		{"no end", "echo " + key + "; exec sleep 3600", "it took longer than 100ms: it wrote nothing", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			took := time.Minute
			if c.name == "no end" {
				took = 100 * time.Millisecond
			}
			command := jobs.Command{Args: []string{"/bin/sh", "-c", c.script}, Dir: t.TempDir(), Timeout: took}
			got, ends, err := printKey(context.Background(), process.Launcher{}, command)
			if err != nil {
				got += err.Error()
			}
			if at := ends.UTC().Format(time.RFC3339); got != c.want || c.ends != "" && at != c.ends || c.ends == "" && !ends.IsZero() {
				t.Errorf("got %q, %s, want %q, %s", got, at, c.want, c.ends)
			}
		})
	}
}
