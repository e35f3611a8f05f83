package term

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"quotad/quota"
)

// A Cell is one field of a table. Its style is applied when widths are known, because
// escape sequences take no room on the screen.
type Cell struct {
	Text  string
	Style Style
	Bar   func(width int) string // draws the text, in the room that the other columns leave; nil: it is there
}

// A bar is as wide as the screen allows, within these bounds. One below minBar would say nothing and is
// left out.
const (
	minBar = 8
	maxBar = 40
)

// Styled returns a cell with a style.
func Styled(s Style, text string) Cell { return Cell{Text: text, Style: s} }

// A Column is a column's head and how its cells are aligned below it.
type Column struct {
	Head  string
	Right bool // numbers align to the right
	Whole bool // never cut: part of an id is of no use
	Least int  // its minimum width on a narrow screen; 0: minText
	Sinks bool // of the last column: text that does not fit is below its row
}

// A Table lines up cells in columns, two spaces apart.
type Table struct {
	Indent  int
	Columns []Column
	Rows    []row
}

// A row is one line of cells, and optional text below it that begins under the second
// column.
type row struct {
	Cells []Cell
	Below string
}

// Gap is how many spaces are between columns.
const Gap = 2

// Add appends a row. Each cell is a Cell, a string, or a number, which gets separators.
func (t *Table) Add(cells ...any) {
	r := row{Cells: make([]Cell, len(cells))}
	for i, cell := range cells {
		switch c := cell.(type) {
		case Cell:
			r.Cells[i] = c
		case string:
			r.Cells[i].Text = c
		case int:
			r.Cells[i].Text = quota.Thousands(c)
		case int64:
			r.Cells[i].Text = quota.Thousands(c)
		case quota.Units:
			r.Cells[i].Text = quota.Thousands(c)
		default:
			panic(fmt.Sprintf("a cell is no %T", cell)) // a mistake in this program
		}
	}
	t.Rows = append(t.Rows, r)
}

// Keep leaves the first rows, at most max, and returns how many it left out.
func (t *Table) Keep(max int) int {
	out := t.Rows[min(max, len(t.Rows)):]
	t.Rows = t.Rows[:len(t.Rows)-len(out)]
	return len(out)
}

// widths returns the width of each column: its widest cell's.
func (t *Table) widths() []int {
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = utf8.RuneCountInString(c.Head)
	}
	for _, r := range t.Rows {
		for i, c := range r.Cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.Text))
		}
	}
	return widths
}

// Append writes a table that continues: below rows in columns of the given widths, or with its
// heads where widths is nil. It returns the widths for the rows that follow.
func (t *Table) Append(b *strings.Builder, v View, widths []int) []int {
	wider := t.widths()
	if widths == nil {
		t.line(b, v, t.heads(), wider)
	}
	for i, w := range widths {
		wider[i] = max(wider[i], w)
	}
	t.lines(b, v, wider)
	return wider
}

// width is how many columns of the screen the whole table takes.
func (t *Table) width() int {
	total := t.Indent
	for i, w := range t.widths() {
		if i > 0 {
			total += Gap
		}
		total += w
	}
	return total
}

// Text returns the rendered table, without empty columns, and without a head line if no column has
// a head. On a narrow screen a column with Sinks sinks, and the widest columns of text are
// cut.
func (t *Table) Text(v View) string {
	var b strings.Builder
	t.drawBars(v.Width)
	t.dropEmpty()
	if !v.Whole {
		t.sink(v.Width)
	}
	widths := t.widths()
	for over := t.width() - v.Width; over > 0 && !v.Whole; over-- {
		i := t.widestText(widths)
		if i < 0 {
			break
		}
		widths[i]--
	}
	if slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Head != "" }) {
		t.line(&b, v, t.heads(), widths)
	}
	t.lines(&b, v, widths)
	return b.String()
}

func (t *Table) drawBars(screen int) {
	room := min(maxBar, screen-t.width())
	for _, r := range t.Rows {
		for i := range r.Cells {
			if cell := &r.Cells[i]; cell.Bar != nil && room >= minBar {
				cell.Text = cell.Bar(room)
			}
		}
	}
}

// lines writes the rows in columns of the given widths.
func (t *Table) lines(b *strings.Builder, v View, widths []int) {
	for _, r := range t.Rows {
		t.line(b, v, r.Cells, widths)
		if r.Below != "" {
			v.Prose(b, t.Indent+widths[0]+Gap, Faint, r.Below)
		}
	}
}

func (t *Table) dropEmpty() {
	for i := len(t.Columns) - 1; i >= 0; i-- {
		if slices.ContainsFunc(t.Rows, func(r row) bool { return r.Cells[i].Text != "" }) {
			continue
		}
		t.Columns = slices.Delete(t.Columns, i, i+1)
		for j := range t.Rows {
			t.Rows[j].Cells = slices.Delete(t.Rows[j].Cells, i, i+1)
		}
	}
}

// sink moves text that is too long for the last column below its row. The parts that fit,
// up to a semicolon, stay.
func (t *Table) sink(width int) {
	last := len(t.Columns) - 1
	if last < 0 || !t.Columns[last].Sinks {
		return
	}
	room := width - t.width() + t.widths()[last]
	for i := range t.Rows {
		r := &t.Rows[i]
		r.Cells[last].Text, r.Below = fitting(r.Cells[last].Text, room)
	}
	t.dropEmpty()
}

// fitting splits text after as many of its parts as fit.
func fitting(text string, room int) (fits, rest string) {
	const between = "; "
	fits = text
	for fits != "" && utf8.RuneCountInString(fits) > room {
		fits = fits[:max(0, strings.LastIndex(fits, between))]
	}
	return fits, strings.TrimPrefix(text[len(fits):], between)
}

// minText is the minimum width of a text column on a narrow screen, unless it says otherwise.
const minText = 8

// widestText returns the widest column that may be cut, or -1.
func (t *Table) widestText(widths []int) int {
	widest := -1
	for i, w := range widths {
		c := t.Columns[i]
		if cuttable := !c.Right && !c.Whole && w > cmp.Or(c.Least, minText); cuttable && (widest < 0 || w > widths[widest]) {
			widest = i
		}
	}
	return widest
}

// heads returns the head line.
func (t *Table) heads() []Cell {
	heads := make([]Cell, len(t.Columns))
	for i, c := range t.Columns {
		heads[i] = Styled(Faint, c.Head)
	}
	return heads
}

// line writes one line of cells in columns of the given widths.
func (t *Table) line(b *strings.Builder, v View, cells []Cell, widths []int) {
	var line strings.Builder
	line.WriteString(strings.Repeat(" ", t.Indent))
	for i, c := range cells {
		if i > 0 {
			line.WriteString(strings.Repeat(" ", Gap))
		}
		text := v.Cut(c.Text, widths[i])
		pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
		if t.Columns[i].Right {
			line.WriteString(pad + v.Paint(c.Style, text))
		} else {
			line.WriteString(v.Paint(c.Style, text) + pad)
		}
	}
	b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
}

// Pairs writes names with their values as prose, without those of no value. It does not cut an id.
func Pairs(rows [][2]string, v View) string {
	rows = slices.DeleteFunc(rows, func(r [2]string) bool { return r[1] == "" })
	widest := 0
	for _, r := range rows {
		widest = max(widest, len(r[0]))
	}
	var b strings.Builder
	for _, r := range rows {
		v.Item(&b, 0, r[0]+strings.Repeat(" ", widest+Gap-len(r[0])), r[1])
	}
	return b.String()
}
