package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"quotad/quota"
)

// colourful is a job that prints what clears a screen, sets a title and rings the bell, in each way that a terminal
// understands.
const colourful = `
[credentials.api]
limits.daily.units = 100
operations.list = 1
[jobs.print]
credential = "api"
regions = ["US"]
cron = "$FAR * * *"
stagger = "0s"
run_at_start = true
command = ["sh", "-c", '''printf 'b\303\244d \033[2J\033]0;title\007 \302\233\062J \302\205\177\r tab\there\n' ''']
`

// What comes out is one line of JSON with the message, whatever that is.
func FuzzJournalLines(f *testing.F) {
	f.Add("plain", 100)
	f.Add("\x00\x1b[2J\x7f\u0085\u009b31m\n<0>\\\"\u2028😀", 9000)
	f.Fuzz(func(t *testing.T, text string, times int) {
		if times < 0 || len(text)*times > 1<<18 || !utf8.ValidString(text) {
			return
		}
		message := strings.Repeat(text, times)
		var b bytes.Buffer
		log := newLogger(journald{&b})
		log.Info().Str("job", "fetch").Msg(message)
		line, ended := strings.CutSuffix(b.String(), "\n")
		encoded, levelled := strings.CutPrefix(line, "<6>")
		if !ended || !levelled || strings.ContainsFunc(line, unicode.IsControl) {
			t.Fatalf("%d bytes: %.100q", len(line), line)
		}
		var values map[string]string
		must(t, json.Unmarshal([]byte(encoded), &values))
		got := values[zerolog.MessageFieldName]
		if got != message {
			t.Errorf("%.100q became %.100q", message, got)
		}
	})
}

// On a terminal a first ledger is no warning, and lines are text. What a job prints reaches no terminal as it is.
func TestOnATerminal(t *testing.T) {
	t.Parallel()
	dir, seen := shortDir(t), ""
	write(t, dir, "config.toml", colourful)
	// script(1) gives quotad a terminal, and returns what comes there.
	cmd := exec.Command("script", "--quiet", "--return", "--command", "NO_COLOR=1 timeout 60 quotad 2>&1", "/dev/null")
	cmd.Dir = dir
	output, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { cmd.Wait() })
	for buffer := make([]byte, 4096); !strings.Contains(seen, "run done"); {
		n, err := output.Read(buffer)
		seen += strings.ReplaceAll(string(buffer[:n]), "\r\n", "\n")
		if err != nil {
			t.Fatalf("%v:\n%s", err, seen)
		}
	}
	cmd.Process.Signal(os.Interrupt)
	begins := regexp.MustCompile(`^[0-9:]+ INF serving config=config.toml ledger=embedded socket=.*\n`)
	if want := "bäd ?[2J?]0;title? ?2J ??? tab\there"; !begins.MatchString(seen) || !strings.Contains(seen, want) || strings.Contains(seen, " WRN ") {
		t.Errorf("got %q, want %q in it", seen, want)
	}
}

func TestMessageFirst(t *testing.T) {
	for line, want := range map[string]string{
		`{"level":"info","n":1,"message":"serving"}`:                      `{"message":"serving","level":"info","n":1}`,
		`{"message":"alone"}`:                                             `{"message":"alone"}`,
		`{"level":"info"}`:                                                `{"level":"info"}`,
		`an error, "message":"not JSON"`:                                  `an error, "message":"not JSON"`,
		`{"a":",\"message\":\"no","message":"a } ,\"message\":\"forged"}`: `{"message":"a } ,\"message\":\"forged","a":",\"message\":\"no"}`,
	} {
		if got := string(messageFirst([]byte(line + "\n"))); got != want+"\n" {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// net/http quotes what an upstream sends unasked, which may hold the key.
func TestComplaintsQuoteNoUpstream(t *testing.T) {
	var b bytes.Buffer
	c := complaints{zerolog.New(&b)}
	const said = "Unsolicited response received on idle HTTP channel"
	fmt.Fprintln(c, said+` starting with "HTTP/1.1 200 OK\r\nX-Key: Sesame"; err=<nil>`)
	if got, want := b.String(), `{"level":"warn","message":"`+said+`"}`+"\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// What one caller is refused a thousand times for one reason takes some lines, and what another one is, too.
func TestRefusalsAreSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &eventLog{log: zerolog.New(io.Discard)}
		logged := func(by, reason string) (n int) {
			for range 1000 {
				if e.refusal(zerolog.WarnLevel, quota.Caller{Job: by}, reason) != nil {
					n++
				}
			}
			return n
		}
		for _, k := range []kind{{"fetch", "limit_exceeded"}, {"fetch", "forbidden"}, {"other", "forbidden"}} {
			if n := logged(k.by, k.reason); n != maxAlike {
				t.Errorf("%v: %d of a thousand are logged", k, n)
			}
		}
		time.Sleep(alikeTime)
		if n := logged("fetch", "limit_exceeded"); n != maxAlike {
			t.Errorf("later %d are logged", n)
		}
		for i := range 2 * maxKinds {
			if e.refusal(zerolog.WarnLevel, quota.Caller{Job: fmt.Sprint(i)}, ""); len(e.kinds) > maxKinds {
				t.Fatalf("%d kinds are remembered", len(e.kinds))
			}
		}
	})
}
