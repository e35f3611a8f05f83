package cmd

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// shared are the names that types have in more than three packages, each for the same thing: what a package is
// configured with, what keeps something, a server, a table.
const shared = "Config Store Server table"

// In a package no two types differ in case only. A name stands for few things in the house.
func TestTypeNames(t *testing.T) {
	packages := make(map[string]map[string]bool) // by name
	inOne := make(map[string]string)
	walkFiles(t, ".go", func(path string) {
		if strings.HasSuffix(path, "_test.go") || strings.Contains(path, "test/") || strings.Contains(path, "benchmark/") {
			return
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			types, ok := decl.(*ast.GenDecl)
			if !ok || types.Tok != token.TYPE {
				continue
			}
			for _, spec := range types.Specs {
				name, dir := spec.(*ast.TypeSpec).Name.Name, filepath.Dir(path)
				lower := dir + " " + strings.ToLower(name)
				if other := inOne[lower]; other != "" {
					t.Errorf("%s has two types: %s and %s", dir, other, name)
				}
				inOne[lower] = name
				if packages[name] == nil {
					packages[name] = make(map[string]bool)
				}
				packages[name][dir] = true
			}
		}
	})
	for name, dirs := range packages {
		if len(dirs) > 3 && !strings.Contains(" "+shared+" ", " "+name+" ") {
			t.Errorf("%d packages have a type %s: say in its name what it is there", len(dirs), name)
		}
	}
}
