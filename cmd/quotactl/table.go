package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"quotad/cmd/quotactl/wording"
	"quotad/quota"
)

// A column is a column's head, and how its cells are shown below it.
type column struct {
	head  string
	right bool // numbers align to the right
	whole bool // never cut: part of an id is of no use
}

// A table lines up cells in columns, two spaces apart.
type table struct {
	indent  int
	columns []column
	rows    []row
	widths  []int // of the columns, which only get wider
	sinks   bool  // text of the last column that does not fit is below its row
}

// A row is one line of cells, and optional text below it that begins under the second column.
type row struct {
	cells []wording.Line
	below string
}

const (
	gap     = 2 // between columns
	minText = 6 // columns of text are not cut to less
)

// add appends a row. Each cell is a line, a string, or a number, which gets separators.
func (t *table) add(cells ...any) {
	r := row{cells: make([]wording.Line, len(cells))}
	for i, cell := range cells {
		switch c := cell.(type) {
		case wording.Line:
			r.cells[i] = c
		case string:
			r.cells[i].Text = c
		case int:
			r.cells[i].Text = quota.Thousands(c)
		case int64:
			r.cells[i].Text = quota.Thousands(c)
		case quota.Units:
			r.cells[i].Text = quota.Thousands(c)
		default:
			panic(fmt.Sprintf("a cell is no %T", cell)) // a mistake in this program
		}
	}
	t.rows = append(t.rows, r)
}

// text returns the table without empty columns, and without a head line if no column has a head. On a narrow screen the
// widest columns of text are cut.
func (t *table) text(v wording.View) string {
	t.dropEmpty()
	if t.sinks && !v.Whole {
		t.sink(v.Width)
		t.dropEmpty()
	}
	t.widen()
	for over := t.width() - v.Width; over > 0 && !v.Whole; over-- {
		widest := -1
		for i, c := range t.columns {
			if !c.right && !c.whole && t.widths[i] > minText && (widest < 0 || t.widths[i] > t.widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		t.widths[widest]--
	}
	return t.head(v) + t.lines(v)
}

// widen makes each column as wide as its widest cell.
func (t *table) widen() {
	t.widths = append(t.widths, make([]int, len(t.columns)-len(t.widths))...)
	for i, c := range t.columns {
		t.widths[i] = max(t.widths[i], utf8.RuneCountInString(c.head))
		for _, r := range t.rows {
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(r.cells[i].Text))
		}
	}
}

// width is how many columns of the screen the whole table takes.
func (t *table) width() int {
	total := t.indent + gap*max(0, len(t.widths)-1)
	for _, w := range t.widths {
		total += w
	}
	return total
}

func (t *table) dropEmpty() {
	for i := len(t.columns) - 1; i >= 0; i-- {
		if slices.ContainsFunc(t.rows, func(r row) bool { return r.cells[i].Text != "" }) {
			continue
		}
		t.columns = slices.Delete(t.columns, i, i+1)
		for j := range t.rows {
			t.rows[j].cells = slices.Delete(t.rows[j].cells, i, i+1)
		}
	}
}

// sink moves text that is too long for the last column below its row.
func (t *table) sink(screen int) {
	t.widen()
	last := len(t.columns) - 1
	room := screen - t.width() + t.widths[last]
	t.widths = nil
	for i := range t.rows {
		r := &t.rows[i]
		if utf8.RuneCountInString(r.cells[last].Text) > room {
			r.below, r.cells[last].Text = r.cells[last].Text, ""
		}
	}
}

func (t *table) head(v wording.View) string {
	heads := make([]wording.Line, len(t.columns))
	for i, c := range t.columns {
		heads[i] = wording.Line{Text: c.head, Style: wording.Faint}
	}
	return strings.TrimLeft(t.line(v, heads), "\n")
}

// lines writes the rows.
func (t *table) lines(v wording.View) string {
	var b strings.Builder
	for _, r := range t.rows {
		b.WriteString(t.line(v, r.cells))
		if r.below != "" {
			v.Prose(&b, t.indent+t.widths[0]+gap, wording.Faint, r.below)
		}
	}
	return b.String()
}

// line writes one line of cells.
func (t *table) line(v wording.View, cells []wording.Line) string {
	line := strings.Repeat(" ", t.indent)
	for i, c := range cells {
		text := v.Cut(c.Text, t.widths[i])
		pad := strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(text))
		if t.columns[i].right {
			line += pad + v.Paint(c.Style, text)
		} else {
			line += v.Paint(c.Style, text) + pad
		}
		line += strings.Repeat(" ", gap)
	}
	return strings.TrimRight(line, " ") + "\n"
}

// pairs writes names with their values as prose, without those of no value. It does not cut an id.
func pairs(v wording.View, rows ...[2]string) string {
	widest := 0
	for _, r := range rows {
		widest = max(widest, len(r[0]))
	}
	var b strings.Builder
	for _, r := range rows {
		if r[1] != "" {
			v.Item(&b, fmt.Sprintf("%-*s", widest+gap, r[0]), r[1])
		}
	}
	return b.String()
}
