package cmd

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// An error is compared by errors.Is, and looked into by errors.As: either holds when a layer adds a fact.
func TestErrorsAreComparedByWhatTheyWrap(t *testing.T) {
	isError := regexp.MustCompile(`^(err|(err|Err|.*\.Err|.*\.err)[A-Z].*|io\.EOF|.*Err|.*\.err)$`)
	walkFiles(t, ".go", func(path string) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if n.Op == token.EQL || n.Op == token.NEQ {
					if x, y := name(n.X), name(n.Y); isError.MatchString(x) && isError.MatchString(y) {
						t.Errorf("%s: compares %s with %s: use errors.Is", files.Position(n.Pos()), x, y)
					}
				}
			case *ast.TypeAssertExpr:
				if x := name(n.X); isError.MatchString(x) {
					t.Errorf("%s: looks into %s: use errors.As", files.Position(n.Pos()), x)
				}
			}
			return true
		})
	})
}

// name returns a name, with what it is selected from; "": an expression is none.
func name(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return name(e.X) + "." + e.Sel.Name
	}
	return ""
}
