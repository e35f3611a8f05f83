package server_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

var update = flag.Bool("update", false, "write testdata/contract.txt anew")

// TestContract holds what every kind of request is answered: status, content type and reason, and what
// a refusal says. Programs that people wrote rely on it, so a line of testdata/contract.txt changes for
// a reason only. A refusal moves nothing, and the connection stays usable.
func TestContract(t *testing.T) {
	var got strings.Builder
	for _, row := range contract() {
		h := clientsServed(t, func(c *server.Config) { c.AdminGroup = servertest.OwnGroup(t) })
		h.Tokens.Issue("mine", "trending", "US", "youtube")
		h.Tokens.Issue("theirs", "charts", "DE", "youtube")
		h.Tokens.Issue("dead", "trending", "US", "youtube")
		h.Tokens.Revoke("dead")
		search := h.Dial().Call("POST", "/v1/acquire", `{"credential":"youtube","operation":"search.list","request_id":"first"}`, servertest.JSON)
		own := h.Dial().Call("POST", "/v1/acquire", `{"operation":"videos.list","request_id":"own"}`, servertest.JSON, "Authorization: Bearer mine")
		ids := strings.NewReplacer("SEARCH", search.Text("grant_id"), "OWN", own.Text("grant_id"))
		h.Dial().Call("POST", "/v1/acquire", `{"credential":"other","operation":"get","count":2}`, servertest.JSON)
		spent := func() string {
			alice, _, _, err := h.service.Usage(t.Context(), "public", "alice")
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(h.Used("youtube"), " and ", alice.Limits[0].Used)
		}
		wire, before := h.Dial(), spent()
		answer := wire.Call(row.method, ids.Replace(row.path), row.body, row.headers...)
		write(&got, row.name, answer)
		if now := spent(); answer.Status >= 400 && now != before {
			t.Errorf("%s: a refusal moved %s units to %s", row.name, before, now)
		}
		if server := answer.Header.Get("Server"); server != "quotad/v1.2.3" {
			t.Errorf("%s: Server: %s", row.name, server)
		}
		if next := wire.Call("GET", "/healthz", ""); next.Status != 200 {
			t.Errorf("%s: the next request of the connection: %d", row.name, next.Status)
		}
	}
	const file = "testdata/contract.txt"
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(string(read), "\n")
	lines := strings.Split(got.String(), "\n")
	if len(lines) != len(want) {
		t.Errorf("%d lines, want %d", len(lines), len(want))
	}
	for i := range min(len(lines), len(want)) {
		if lines[i] != want[i] {
			t.Errorf("got  %s\nwant %s", lines[i], want[i])
		}
	}
}

// write writes an answer in a line, and below it what a problem says.
func write(to *strings.Builder, name string, answer servertest.Response) {
	text := func(member string) string { // empty if it is absent
		if answer.Fields[member] == nil {
			return ""
		}
		return answer.Text(member)
	}
	fmt.Fprintf(to, "%-60s %d %s %s", name, answer.Status, answer.Header.Get("Content-Type"), text("reason"))
	for _, header := range []string{"Allow", "Retry-After"} {
		if value := answer.Header.Get(header); value != "" {
			fmt.Fprintf(to, ", %s: %s", header, value)
		}
	}
	if answer.Status >= 400 && answer.Fields != nil {
		for _, member := range []string{"status", "type", "granted", "retry_at"} {
			if value := text(member); value != "" && value != fmt.Sprint(answer.Status) && value != "about:blank" {
				fmt.Fprintf(to, ", %s %s", member, value)
			}
		}
		for _, member := range []string{"detail", "hint"} {
			if says := text(member); says != "" {
				fmt.Fprintf(to, "\n    %s: %s", member, says)
			}
		}
	}
	fmt.Fprintln(to)
}

type contractRow struct {
	name, method, path, body string
	headers                  []string
}

// contract returns the requests; both kinds of bodies where a route takes one.
func contract() []contractRow {
	const (
		mine   = "Authorization: Bearer mine"
		search = "/v1/grants/SEARCH" // stands for the id of one outside any pass
		own    = "/v1/grants/OWN"    // of the pass that holds the token "mine"
		none   = "youtube:ABCDEFGHIJKLMNOP"
		videos = "credential=youtube&operation=videos.list"
	)
	var rows []contractRow
	add := func(name, method, path, body string, headers ...string) {
		rows = append(rows, contractRow{name, method, path, body, headers})
	}
	form := func(name, path, body string, headers ...string) {
		add("form: "+name, "POST", path, body, append(headers, servertest.Form)...)
	}
	json := func(name, path, body string, headers ...string) {
		add("json: "+name, "POST", path, body, append(headers, servertest.JSON)...)
	}
	acquire := func(name, body string, headers ...string) { json("acquire: "+name, "/v1/acquire", body, headers...) }

	form("acquire: a grant", "/v1/acquire", videos)
	form("acquire: count", "/v1/acquire", videos+"&count=3")
	form("acquire: every field", "/v1/acquire", videos+"&count=3&request_id=a&optional=true&use_reserve=true")
	form("acquire: no body", "/v1/acquire", "")
	form("acquire: a field twice", "/v1/acquire", videos+"&operation=search.list")
	form("acquire: an unknown field", "/v1/acquire", videos+"&cost=1")
	form("acquire: a field that is gone", "/v1/acquire", videos+"&count=3&at_most=true")
	form("acquire: a name in another case", "/v1/acquire", "Credential=youtube&operation=videos.list")
	form("acquire: an empty count", "/v1/acquire", videos+"&count=")
	form("acquire: a fraction", "/v1/acquire", videos+"&count=1.5")
	form("acquire: an exponent", "/v1/acquire", videos+"&count=1e3")
	form("acquire: leading zeros", "/v1/acquire", videos+"&count=007")
	form("acquire: a hexadecimal count", "/v1/acquire", videos+"&count=0x10")
	form("acquire: count beyond the largest", "/v1/acquire", videos+"&count=9007199254740992")
	form("acquire: count beyond 64 bits", "/v1/acquire", videos+"&count=18446744073709551617")
	form("acquire: a count with a blank", "/v1/acquire", videos+"&count=1%20")
	form("acquire: optional=1", "/v1/acquire", videos+"&optional=1")
	form("acquire: optional=TRUE", "/v1/acquire", videos+"&optional=TRUE")
	form("acquire: optional without a value", "/v1/acquire", videos+"&optional")
	form("acquire: fresh, which is gone", "/v1/acquire", videos+"&fresh=true")
	form("acquire: a bad escape", "/v1/acquire", videos+"&request_id=%zz")
	form("acquire: a semicolon", "/v1/acquire", videos+";count=2")
	form("acquire: not UTF-8", "/v1/acquire", videos+"&request_id=%ff")
	form("acquire: a long text", "/v1/acquire", videos+"&request_id="+strings.Repeat("x", 257))
	form("acquire: a text at its bound", "/v1/acquire", videos+"&request_id="+strings.Repeat("x", 128))
	form("acquire: too many fields", "/v1/acquire", manyFields())
	form("acquire: JSON", "/v1/acquire", `{"credential":"youtube","operation":"videos.list"}`)
	form("acquire: a query, too", "/v1/acquire?count=2", videos)
	form("acquire: count 0", "/v1/acquire", videos+"&count=0")
	form("acquire: two signs", "/v1/acquire", videos+"&count=%2B%2B5")
	form("acquire: an unprintable request id", "/v1/acquire", videos+"&request_id=a%00b")
	form("acquire: a byte too much", "/v1/acquire", "credential="+strings.Repeat("x", 64<<10-10))
	form("acquire: empty pairs", "/v1/acquire", "&&"+videos+"&&")

	acquire("a grant", `{"credential":"youtube","operation":"videos.list"}`)
	acquire("every field", `{"credential":"youtube","operation":"videos.list","count":2,"request_id":"a","optional":true,"use_reserve":true}`)
	acquire("blanks and escapes", " {\"credential\" : \"you\\u0074ube\",\n\t\"operation\":\"videos.list\"} \r\n")
	acquire("nothing", ``)
	acquire("blanks alone", ` `)
	acquire("an empty object", `{}`)
	acquire("null", `null`)
	acquire("a list", `[]`)
	acquire("a text", `"youtube"`)
	acquire("no JSON", `credential=youtube`)
	acquire("cut off", `{"credential":"youtube","operation":"videos.list"`)
	acquire("a comma too many", `{"credential":"youtube","operation":"videos.list",}`)
	acquire("something behind it", `{"credential":"youtube","operation":"videos.list"} x`)
	acquire("a second object", `{"credential":"youtube","operation":"videos.list"}{}`)
	acquire("an unknown member", `{"credential":"youtube","operation":"videos.list","cost":1}`)
	acquire("a member in another case", `{"Credential":"youtube","operation":"videos.list"}`)
	acquire("a member twice", `{"credential":"youtube","operation":"videos.list","operation":"search.list"}`)
	acquire("a member twice, in another case", `{"credential":"youtube","operation":"videos.list","Operation":"search.list"}`)
	acquire("a field that is gone", `{"credential":"youtube","operation":"videos.list","count":3,"at_most":true}`)
	acquire("count as text", `{"credential":"youtube","operation":"videos.list","count":"2"}`)
	acquire("count null", `{"credential":"youtube","operation":"videos.list","count":null}`)
	acquire("operation null", `{"credential":"youtube","operation":null}`)
	acquire("operation a number", `{"credential":"youtube","operation":1}`)
	acquire("operation an object", `{"credential":"youtube","operation":{}}`)
	acquire("operation a list", `{"credential":"youtube","operation":["videos.list"]}`)
	acquire("optional as text", `{"credential":"youtube","operation":"videos.list","optional":"true"}`)
	acquire("a fraction", `{"credential":"youtube","operation":"videos.list","count":1.5}`)
	acquire("a whole fraction", `{"credential":"youtube","operation":"videos.list","count":2.0}`)
	acquire("an exponent", `{"credential":"youtube","operation":"videos.list","count":1e3}`)
	acquire("minus zero", `{"credential":"youtube","operation":"videos.list","count":-0}`)
	acquire("count beyond the largest", `{"credential":"youtube","operation":"videos.list","count":9007199254740992}`)
	acquire("count beyond 64 bits", `{"credential":"youtube","operation":"videos.list","count":18446744073709551617}`)
	acquire("the largest count", `{"credential":"youtube","operation":"videos.list","count":9007199254740991}`)
	acquire("not UTF-8", "{\"credential\":\"youtube\",\"operation\":\"videos.list\",\"request_id\":\"\xff\"}")
	acquire("half a surrogate", `{"credential":"youtube","operation":"videos.list","request_id":"\ud800"}`)
	acquire("half a surrogate beside U+FFFD", `{"credential":"youtube","operation":"videos.list","request_id":"\ud800�"}`)
	acquire("a control character", "{\"credential\":\"youtube\",\"operation\":\"videos.list\",\"request_id\":\"a\nb\"}")
	acquire("a control character, escaped", `{"credential":"youtube","operation":"videos.list","request_id":"a\nb"}`)
	acquire("a long text", `{"credential":"youtube","operation":"videos.list","request_id":"`+strings.Repeat("x", 257)+`"}`)
	acquire("deeply nested", `{"x":`+strings.Repeat("[", 20_000))
	acquire("nested lists", strings.Repeat("[", 60_000))
	acquire("count 0", `{"credential":"youtube","operation":"videos.list","count":0}`)
	acquire("count below 0", `{"credential":"youtube","operation":"videos.list","count":-1}`)
	acquire("count of 200 digits", `{"credential":"youtube","operation":"videos.list","count":`+strings.Repeat("9", 200)+`}`)
	acquire("count true", `{"credential":"youtube","operation":"videos.list","count":true}`)
	acquire("count that multiplies past the largest", `{"credential":"youtube","operation":"search.list","count":9007199254740991}`)
	acquire("a request id beyond its bound", `{"credential":"youtube","operation":"videos.list","request_id":"`+strings.Repeat("x", 129)+`"}`)
	acquire("an unknown member beside a missing one", `{"credential":"youtube","operatoin":"videos.list"}`)
	acquire("a megabyte", strings.Repeat("x", 1<<20))
	acquire("no operation", `{"credential":"youtube"}`)
	acquire("no credential", `{"operation":"videos.list"}`)
	acquire("an unknown credential", `{"credential":"vimeo","operation":"videos.list"}`)
	acquire("an unknown operation", `{"credential":"youtube","operation":"videos.lst"}`)
	acquire("a name that cannot be", `{"credential":"you tube","operation":"videos.list"}`)
	acquire("never fits", `{"credential":"youtube","operation":"search.list","count":41}`)
	acquire("denied", `{"credential":"other","operation":"get"}`)
	acquire("replayed", `{"credential":"youtube","operation":"search.list","request_id":"first"}`)
	acquire("an id of another request", `{"credential":"youtube","operation":"videos.list","request_id":"first"}`)
	acquire("too large", `{"request_id":"`+strings.Repeat("x", 70_000)+`"}`)
	acquire("the reserve", `{"credential":"youtube","operation":"videos.list","use_reserve":true}`)
	acquire("with a token", `{"operation":"videos.list"}`, mine)
	acquire("the reserve with a token", `{"operation":"videos.list","use_reserve":true}`, mine)
	acquire("another credential with a token", `{"credential":"other","operation":"get"}`, mine)
	acquire("its own credential by name", `{"credential":"youtube","operation":"videos.list"}`, mine)
	acquire("a token that is dead", `{"operation":"videos.list"}`, "Authorization: Bearer dead")
	acquire("no value of a token", `{"operation":"videos.list"}`, "Authorization:")
	acquire("two tokens", `{"operation":"videos.list"}`, mine, mine)
	acquire("an unknown token", `{"operation":"videos.list"}`, "Authorization: Bearer no")
	acquire("an empty token", `{"operation":"videos.list"}`, "Authorization: Bearer ")
	acquire("another scheme", `{"operation":"videos.list"}`, "Authorization: Basic bWluZQ==")

	add("type: none", "POST", "/v1/acquire", videos)
	add("type: text", "POST", "/v1/acquire", videos, "Content-Type: text/plain")
	add("type: a form in another case", "POST", "/v1/acquire", videos, "Content-Type: Application/X-WWW-Form-Urlencoded")
	add("type: a form in UTF-8", "POST", "/v1/acquire", videos, servertest.Form+"; charset=UTF-8")
	add("type: a form in Latin-1", "POST", "/v1/acquire", videos, servertest.Form+"; charset=iso-8859-1")
	add("type: JSON in UTF-8", "POST", "/v1/acquire", `{"credential":"youtube","operation":"videos.list"}`, servertest.JSON+"; charset=utf-8")
	add("type: JSON in UTF-16", "POST", "/v1/acquire", `{"credential":"youtube","operation":"videos.list"}`, servertest.JSON+"; charset=utf-16")
	add("type: problem+json", "POST", "/v1/acquire", `{"credential":"youtube","operation":"videos.list"}`, "Content-Type: application/problem+json")

	json("settle", search+"/settle", `{"units":50}`)
	json("settle: no units", search+"/settle", `{}`)
	json("settle: null", search+"/settle", `{"units":null}`)
	json("settle: no body", search+"/settle", ``)
	json("settle: below zero", search+"/settle", `{"units":-1}`)
	json("settle: a fraction", search+"/settle", `{"units":0.5}`)
	json("settle: beyond the largest", search+"/settle", `{"units":9007199254740992}`)
	json("settle: to zero", search+"/settle", `{"units":0}`)
	form("settle", search+"/settle", "units=50")
	form("settle: an unknown field", search+"/settle", "units=50&limit=daily")
	json("settle: its own", own+"/settle", `{"units":2}`, mine)
	json("settle: another's", search+"/settle", `{"units":2}`, mine)
	json("settle: no such grant", "/v1/grants/"+none+"/settle", `{"units":2}`)
	json("settle: no id", "/v1/grants/nonsense/settle", `{"units":2}`)
	json("settle: of an unknown credential", "/v1/grants/vimeo:ABCDEFGHIJKLMNOP/settle", `{"units":2}`)
	add("release", "DELETE", search, "")
	add("release: its own", "DELETE", own, "", mine)
	add("release: another's", "DELETE", search, "", mine)
	add("release: no such grant", "DELETE", "/v1/grants/"+none, "")
	add("release: with a body", "DELETE", search, "units=0", servertest.Form)
	add("release: with a query", "DELETE", search+"?units=0", "")

	const youtube = "/v1/credentials/youtube"
	for _, path := range []string{
		"/v1/status", "/v1/credentials", "/v1/credentials?credential=youtube", "/v1/credentials?credential=vimeo", "/v1", "/healthz", "/readyz", "/version", "/", "/v1/nothing", "/v1/acquire",
		"/v1/status?verbose=1", "/v1/status?", "/v1/log?credential=youtube", "/v1/log?credential=youtube&most=0", "/v1/log?credential=youtube&most=1001", "/v1/log?credential=youtube&most=x", "/v1/log?credential=youtube&most=1&most=2",
		"/v1/log?credential=youtube&newest=true", "/v1/log?credential=youtube&newest=yes", "/v1/log", "/v1/log?credential=youtube&after=nonsense", "/v1/log?credential=youtube&after=0",
		"/v1/log?credential=youtube&after=1795251600000000", "/v1/log?credential=youtube&after=" + none, "/v1/log?credential=youtube&since=7d", "/v1/log?credential=youtube&since=2026-03-14T09:00:00Z", "/v1/log?credential=youtube&since=yesterday", "/v1/log?credential=youtube&since=-1h",
		"/v1/log?credential=youtube&since=", "/v1/log?credential=vimeo", "/v1/log?credential=vimeo&since=1h", "/v1/log?credential=youtube&since=0s", "/v1/log?credential=youtube&since=1w",
		"/v1/log?credential=youtube&since=99999999999d", "/v1/log?credential=youtube&since=3000d", "/v1/log?credential=youtube&since=2026-11-21T09:00:00%2B01:00", "/v1/log?credential=youtube&most=1000", "/v1/log?credential=youtube&page=2", "/v1/log?denied=true", "/v1/log?denied=true&credential=youtube", "/v1/grants/" + none,
		"/v1/status?%zz", "/v1/../status", "//v1/status",
	} {
		add("GET "+path, "GET", path, "")
	}
	add("GET with a body", "GET", "/v1/status", "a=b", servertest.Form)
	add("HEAD /v1/status", "HEAD", "/v1/status", "")
	add("PUT /v1/status", "PUT", "/v1/status", "")
	add("GET with a token", "GET", "/v1/status", "", mine)
	add("POST /v1/status", "POST", "/v1/status", "")
	add("a method made up", "SPEND", "/v1/acquire", "")
	add("OPTIONS *", "OPTIONS", "*", "")
	add("a path at its bound", "GET", "/"+strings.Repeat("x", 511), "")
	add("a path beyond its bound", "GET", "/v1/jobs/"+strings.Repeat("x", 504), "")
	add("an escaped path beyond its bound", "DELETE", "/v1/grants/"+strings.Repeat("%2e", 510), "")
	// curl takes the redirect that http.ServeMux would send for success.
	for _, path := range []string{"/v1/acquire/", "//v1/acquire", "/v1/./acquire", "/v1/%2e%2e/v1/acquire"} {
		add("POST "+path, "POST", path, "")
	}
	for _, header := range []string{
		"Host: localhost", "Host: LOCALHOST:80", "Host: 127.0.0.1", "Host: 127.0.0.1:9400", "Host: [::1]:9400", "Host: ", "Host: evil.example", "Host: evil.example:80",
		"Origin: http://localhost", "Origin: null", "Referer: http://localhost/",
		"Sec-Fetch-Site: none", // an address that a person types into a browser
		"Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Sec-Fetch-Site: same-origin",
	} {
		add("GET with "+header, "GET", "/healthz", "", header)
	}
	add("GET with two sites", "GET", "/healthz", "", "Sec-Fetch-Site: none", "Sec-Fetch-Site: cross-site")
	add("GET of a typed address, from a page", "GET", "/healthz", "", "Sec-Fetch-Site: none", "Referer: http://evil.example/")
	add("POST http://v1/acquire", "POST", "/acquire", "", "Host: v1")
	add("GET http://healthz", "GET", "/", "", "Host: healthz")
	add("POST from a page", "POST", "/v1/acquire", videos, servertest.Form, "Origin: http://localhost")

	json("book", youtube+"/book", `{"limit":"daily","units":20,"note":"by hand"}`)
	json("book: below zero", youtube+"/book", `{"limit":"daily","units":-20}`)
	form("book", youtube+"/book", "limit=daily&units=20")
	json("book: no units", youtube+"/book", `{"limit":"daily"}`)
	json("book: zero", youtube+"/book", `{"limit":"daily","units":0}`)
	json("book: half a unit", youtube+"/book", `{"limit":"daily","units":0.5}`)
	json("book: beyond the largest", youtube+"/book", `{"limit":"daily","units":9007199254740992}`)
	json("book: a long note", youtube+"/book", `{"limit":"daily","units":1,"note":"`+strings.Repeat("n", 300)+`"}`)
	json("book: an unknown field", youtube+"/book", `{"limit":"daily","units":1,"reason":"none"}`)
	json("book: no limit", youtube+"/book", `{"units":1}`)
	json("book: an unknown limit", youtube+"/book", `{"limit":"hourly","units":1}`)
	json("book: an unknown credential", "/v1/credentials/vimeo/book", `{"limit":"daily","units":1}`)
	json("book: with a token", youtube+"/book", `{"limit":"daily","units":1}`, mine)
	form("clients: no body", "/v1/clients/public/acquire", "")
	form("clients: an empty subject", "/v1/clients/public/acquire", "subject=")
	form("clients: a subject of a megabyte", "/v1/clients/public/acquire", "subject="+strings.Repeat("x", 1<<20))
	form("clients: a long subject", "/v1/clients/public/acquire", "subject="+strings.Repeat("x", 8193))
	json("clients: not UTF-8 in JSON", "/v1/clients/public/acquire", "{\"subject\":\"\xff\"}")
	json("clients: a number as the subject", "/v1/clients/public/acquire", `{"subject":5}`)
	json("clients: a list as the subject", "/v1/clients/public/acquire", `{"subject":["alice"]}`)
	form("clients: two subjects", "/v1/clients/public/acquire", "subject=alice&subject=bob")
	json("clients: count 0", "/v1/clients/public/acquire", `{"subject":"alice","count":0}`)
	json("clients: count -1", "/v1/clients/public/acquire", `{"subject":"alice","count":-1}`)
	json("clients: count 1.5", "/v1/clients/public/acquire", `{"subject":"alice","count":1.5}`)
	json("clients: count 1e2", "/v1/clients/public/acquire", `{"subject":"alice","count":1e2}`)
	json("clients: count 2^32", "/v1/clients/public/acquire", `{"subject":"alice","count":4294967296}`)
	json("clients: count 2^64", "/v1/clients/public/acquire", `{"subject":"alice","count":18446744073709551616}`)
	json("clients: count as a string", "/v1/clients/public/acquire", `{"subject":"alice","count":"1"}`)
	form("clients: count empty", "/v1/clients/public/acquire", "subject=alice&count=")
	form("clients: more than there is", "/v1/clients/public/acquire", "subject=alice&count=4")
	form("clients: very much", "/v1/clients/public/acquire", "subject=alice&operation=search&count=4294967295")
	form("clients: an unknown operation", "/v1/clients/public/acquire", "subject=alice&operation=serch")
	form("clients: unknown clients", "/v1/clients/pubilc/acquire", "subject=alice")
	form("clients: a strange name", "/v1/clients/%00/acquire", "subject=alice")
	form("clients: an unknown field", "/v1/clients/public/acquire", "subject=alice&key=1")

	json("reset", youtube+"/reset", `{"confirm":"youtube","note":"a new day"}`)
	json("reset: not confirmed", youtube+"/reset", `{}`)
	json("reset: a wrong confirmation", youtube+"/reset", `{"confirm":"true"}`)
	json("reset: of another", youtube+"/reset", `{"confirm":"other"}`)
	json("reset: an unknown credential", "/v1/credentials/vimeo/reset", `{"confirm":"vimeo"}`)
	json("reset: with a token", youtube+"/reset", `{"confirm":"youtube"}`, mine)
	return rows
}
