package cmd

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What the pages for contributors, and the comment of each package, call a file is one, but for pages of the manual.
func TestPagesNameFiles(t *testing.T) {
	named := regexp.MustCompile(`[\w./-]*\w\.(go|toml|yml|md|json)\b(\(5\))?`)
	all := make(map[string]bool)
	for _, ending := range []string{".go", ".toml", ".yml", ".md", ".json"} {
		walkFiles(t, ending, func(path string) { all[filepath.ToSlash(strings.TrimPrefix(path, "../"))] = true })
	}
	files := func(page string) {
		for _, name := range named.FindAllString(readFile(t, filepath.Join("..", page)), -1) {
			if !strings.HasSuffix(name, ")") && !strings.HasPrefix(name, "NAME.") && !isFile(all, filepath.Dir(page), name) {
				t.Errorf("%s names %s, which is no file", page, name)
			}
		}
	}
	for _, page := range []string{".github/CONTRIBUTING.md", "quota/README.md", "jobs/README.md"} {
		files(page)
	}
	for path := range all {
		if filepath.Base(path) == "doc.go" {
			files(path)
		}
	}
}

// isFile reports whether a name in a page is one of all files. The comment of a package names its own files;
// elsewhere the end of a path will do.
func isFile(all map[string]bool, dir, name string) bool {
	if all[filepath.ToSlash(filepath.Join(dir, name))] || all[name] {
		return true
	}
	for path := range all {
		if strings.HasSuffix(path, "/"+name) && (strings.Contains(name, "/") || !strings.HasSuffix(name, ".go") || dir == ".github" || strings.HasPrefix(path, dir+"/")) {
			return true
		}
	}
	return false
}
