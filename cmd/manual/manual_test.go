package manual

//ci:norace

import "testing"

func TestOfUsage(t *testing.T) {
	got := OfUsage(1, "v1.2", "a-tool - do this\n\nUsage:\n  a-tool 'x\\n'\n.dot\n'quote\n…\n", "quotad(8)", "quotad.toml(5)")
	want := ".TH A\\-TOOL 1 \"\" \"quotad v1.2\"\n.SH NAME\na\\-tool \\- do this\n" +
		".SH DESCRIPTION\n.nf\nUsage:\n  a\\-tool 'x\\en'\n\\&.dot\n\\&'quote\n\\[u2026]\n.fi\n" +
		".SH SEE ALSO\nquotad(8), quotad.toml(5)\n"
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
