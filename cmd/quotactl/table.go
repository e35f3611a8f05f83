package main

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// A cell is one field of a table. Its style is applied once widths are known,
// because escape sequences take no room on the screen.
type cell struct {
	text  string
	style style
}

// A column is a column's head and how its cells stand below it.
type column struct {
	head  string
	right bool // numbers align to the right
	whole bool // text that would be of no use in part: an id
	sinks bool // of the last column: text that does not fit stands below its row
}

// A table lines up cells in columns, two spaces apart.
type table struct {
	indent  int
	columns []column
	rows    []row
}

// A row is one line of cells, and perhaps a line of text below it that begins
// under the second column.
type row struct {
	cells []cell
	below string
}

const gap = 2

func (t *table) add(cells ...cell) { t.rows = append(t.rows, row{cells: cells}) }

// widths returns the width of each column: its widest cell's.
func (t *table) widths() []int {
	widths := make([]int, len(t.columns))
	for i, c := range t.columns {
		widths[i] = utf8.RuneCountInString(c.head)
	}
	for _, r := range t.rows {
		for i, c := range r.cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	return widths
}

// widen returns the widths that these rows need below rows of the given widths.
func (t *table) widen(widths []int) []int {
	wider := t.widths()
	for i, w := range widths {
		wider[i] = max(wider[i], w)
	}
	return wider
}

// width is how many columns of the screen the whole table takes.
func (t *table) width() int {
	total := t.indent
	for i, w := range t.widths() {
		if i > 0 {
			total += gap
		}
		total += w
	}
	return total
}

// render writes the table, without a head line where no column has a head, and
// without columns that hold nothing. On a narrow screen what may sinks, and the
// widest columns of text are cut.
func (t *table) render(b *strings.Builder, v view) {
	t.dropEmpty()
	t.sink(v.width)
	widths := t.widths()
	for over := t.width() - v.width; over > 0; over-- {
		i := t.widestText(widths)
		if i < 0 || widths[i] <= leastText {
			break
		}
		widths[i]--
	}
	if t.hasHead() {
		t.line(b, v, t.heads(), widths)
	}
	t.lines(b, v, widths)
}

// lines writes the rows in columns of the given widths.
func (t *table) lines(b *strings.Builder, v view, widths []int) {
	for _, r := range t.rows {
		t.line(b, v, r.cells, widths)
		if r.below != "" {
			v.prose(b, t.indent+widths[0]+gap, faint, r.below)
		}
	}
}

func (t *table) dropEmpty() {
	for i := len(t.columns) - 1; i >= 0; i-- {
		if slices.ContainsFunc(t.rows, func(r row) bool { return r.cells[i].text != "" }) {
			continue
		}
		t.columns = slices.Delete(t.columns, i, i+1)
		for j := range t.rows {
			t.rows[j].cells = slices.Delete(t.rows[j].cells, i, i+1)
		}
	}
}

// sink moves what is too long for the last column of a screen below its row, but
// for the parts that fit: those before a semicolon.
func (t *table) sink(width int) {
	last := len(t.columns) - 1
	if last < 0 || !t.columns[last].sinks {
		return
	}
	room := width - t.width() + t.widths()[last]
	for i := range t.rows {
		r := &t.rows[i]
		r.cells[last].text, r.below = fitting(r.cells[last].text, room)
	}
	t.dropEmpty()
}

// fitting splits text behind as many of its parts as fit.
func fitting(text string, room int) (fits, rest string) {
	const between = "; "
	fits = text
	for fits != "" && utf8.RuneCountInString(fits) > room {
		fits = fits[:max(0, strings.LastIndex(fits, between))]
	}
	return fits, strings.TrimPrefix(text[len(fits):], between)
}

// leastText is the least that is left of a text column on a narrow screen.
const leastText = 8

// widestText returns the widest column that may be cut, or -1.
func (t *table) widestText(widths []int) int {
	widest := -1
	for i, w := range widths {
		if cuttable := !t.columns[i].right && !t.columns[i].whole; cuttable && (widest < 0 || w > widths[widest]) {
			widest = i
		}
	}
	return widest
}

func (t *table) hasHead() bool {
	for _, c := range t.columns {
		if c.head != "" {
			return true
		}
	}
	return false
}

func (t *table) heads() []cell {
	heads := make([]cell, len(t.columns))
	for i, c := range t.columns {
		heads[i] = cell{c.head, faint}
	}
	return heads
}

func (t *table) line(b *strings.Builder, v view, cells []cell, widths []int) {
	var line strings.Builder
	line.WriteString(strings.Repeat(" ", t.indent))
	for i, c := range cells {
		if i > 0 {
			line.WriteString(strings.Repeat(" ", gap))
		}
		text := v.cut(c.text, widths[i])
		pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
		if t.columns[i].right {
			line.WriteString(pad + v.paint(c.style, text))
		} else {
			line.WriteString(v.paint(c.style, text) + pad)
		}
	}
	b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
}

// pairs writes names and, beside them, values as prose: an id is left whole.
func pairs(rows [][2]string, v view) string {
	widest := 0
	for _, r := range rows {
		widest = max(widest, len(r[0]))
	}
	var b strings.Builder
	for _, r := range rows {
		v.item(&b, 0, r[0]+strings.Repeat(" ", widest+gap-len(r[0])), r[1])
	}
	return b.String()
}
