package main

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"quotad/quota/api"
	"quotad/quota/server"
)

var update = flag.Bool("update", false, "write what the pages show of a daemon into them: the table of routes, the output of recipes")

// The pages for readers: the first one, and those that it leads to.
const (
	readmeFile = "../../README.md"
	apiFile    = "../../quota/api/README.md"
)

func readPage(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	return string(text)
}

// Where a page leads, there is something: a file, and in it the section.
func TestReadmeLinks(t *testing.T) {
	links := 0
	for _, page := range everyPage(t) {
		for _, link := range regexp.MustCompile(`\]\(([^):#]*)#?([^):]*)\)`).FindAllStringSubmatch(readPage(t, page), -1) {
			links++
			target := page
			if link[1] != "" {
				target = filepath.Join(filepath.Dir(page), link[1])
			}
			if info, err := os.Stat(target); err == nil && info.IsDir() {
				continue
			}
			if text := readPage(t, target); link[2] != "" && !slices.Contains(sectionsOf(text), link[2]) {
				t.Errorf("%s leads to %s, which has no section %s", page, target, link[2])
			}
		}
	}
	if links < 50 {
		t.Errorf("the pages have %d links", links)
	}
}

// everyPage returns the pages of the repository, those for contributors included.
func everyPage(t *testing.T) (pages []string) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			pages = append(pages, path)
		}
		return err
	})
	must(t, err)
	return pages
}

// A caller that waits in systemd's socket, while quotad does not start, gives up.
func TestEveryCurlGivesUp(t *testing.T) {
	for _, page := range everyPage(t) {
		for i, line := range strings.Split(readPage(t, page), "\n") {
			if regexp.MustCompile(`\bcurl +[-"]`).MatchString(line) && !strings.Contains(line, "--max-time") && !strings.Contains(line, " -m ") {
				t.Errorf("%s:%d: this curl wants a --max-time: %s", page, i+1, line)
			}
		}
	}
}

// userPages returns the pages for those who use quotad.
func userPages(t *testing.T) (pages []string) {
	t.Helper()
	for _, pattern := range []string{"../../README.md", "*.md", "metrics/*.md", "../../quota/*.md", "../../quota/api/*.md", "../../systemd/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		pages = append(pages, found...)
	}
	return pages
}

// sectionsOf returns the anchors that a browser makes of the headings of a page.
func sectionsOf(page string) (anchors []string) {
	for _, heading := range regexp.MustCompile("(?m)^#+ (.*)").FindAllStringSubmatch(page, -1) {
		plain := regexp.MustCompile(`[^\w -]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		anchors = append(anchors, strings.ReplaceAll(plain, " ", "-"))
	}
	return anchors
}

// blocksOf returns the blocks of a README that hold a text, without the fences.
func blocksOf(readme, text string) (found []string) {
	// Every other part between the fences is a block, with its language ahead.
	for i, part := range strings.Split(readme, "```") {
		if _, block, ok := strings.Cut(part, "\n"); ok && i%2 == 1 && strings.Contains(block, text) {
			found = append(found, block)
		}
	}
	return found
}

// pageListsEveryRoute holds the list of the API's page against the daemon's own; -update puts that there.
func pageListsEveryRoute(t *testing.T, client *api.Client) {
	list := routesOf(t, client)
	readme, want := readPage(t, apiFile), routeTable(list)
	begin := strings.Index(readme, routeTableHead)
	if begin < 0 {
		t.Fatalf("the page has no list that begins with %q", routeTableHead)
	}
	end := begin + strings.Index(readme[begin+len(routeTableHead):]+"```", "```") + len(routeTableHead)
	switch got := readme[begin:end]; {
	case got == want:
	case !*update:
		t.Errorf("got:\n%s\nwant, as go test ./cmd/quotad -run %s -update writes it:\n%s", got, t.Name(), want)
	default:
		must(t, os.WriteFile(apiFile, []byte(readme[:begin]+want+readme[end:]), 0o644))
	}
	for _, r := range list {
		checkFields(t, client, r)
	}
}

const routeTableHead = "```\nPOST /v1/acquire"

func routeTable(routes []route) string {
	callers := map[string]string{
		string(server.Read): "", string(server.Spend): "", string(server.Correct): " (yours)",
		string(server.Observe): " (passes, operators)", string(server.Operate): " (operators)",
	}
	table := "```\n"
	for _, r := range routes {
		line := fmt.Sprintf("%s %s%s ", r.Method, r.Path, callers[r.Access]) + strings.Join(r.fields(), " ")
		table += strings.TrimRight(line, " ") + "\n"
	}
	return table
}

// A route is one line of GET /v1.
type route struct{ Method, Path, Access, Does string }

func routesOf(t *testing.T, client *api.Client) []route {
	t.Helper()
	var list struct{ Routes []route }
	must(t, client.Get(context.Background(), "/v1", &list))
	if len(list.Routes) < 20 {
		t.Fatalf("the daemon lists %d routes", len(list.Routes))
	}
	return list.Routes
}

// fields are the fields that a route takes.
func (r route) fields() []string {
	_, list, _ := strings.Cut(r.Does, "; ")
	return strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(", ", r) })
}

// checkFields asks a route for something that is not there, with every field that
// it is said to take.
func checkFields(t *testing.T, client *api.Client, r route) {
	t.Helper()
	path := strings.NewReplacer("{name}", "none", "{job}", "none", "{run}", "none", "{id}", "none").Replace(r.Path)
	form, body := url.Values{}, map[string]string{}
	for _, field := range r.fields() {
		form.Set(field, "1")
		body[field] = "1"
	}
	var err error
	if r.Method == http.MethodGet {
		err = client.Get(context.Background(), path+"?"+form.Encode(), nil)
	} else {
		err = client.Do(context.Background(), r.Method, path, body, nil)
	}
	if err != nil && strings.Contains(err.Error(), "unknown field") {
		t.Errorf("%s %s: %v", r.Method, r.Path, err)
	}
}
