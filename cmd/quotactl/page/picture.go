package page

import (
	"context"
	"time"

	"quotad/cmd/quotactl/term"
)

// A Look returns what the page shows now. Its error says why nothing is known.
type Look func(context.Context) (Picture, error)

// A Picture is what the page shows as of one instant. Its texts are for people. The page
// escapes them.
type Picture struct {
	At   time.Time      // by this host's clock
	Zone *time.Location // of the hours below an axis
	Mark string         // follows a time that is not local: " UTC"

	Host        string // the name of quotad's host
	About       Line   // which quotad answers, and how its ledger is
	Says        Line   // what needs a person, in a sentence
	Troubles    []Trouble
	Notes       []Trouble // which need no person
	Credentials []Credential
	Jobs        []Job
	Day         Day
	Week        Week
	Refusals    Refusals
}

// A Line is a text and how it stands out.
type Line = term.Cell

// A Credential is the limits of one, and who spent from them.
type Credential struct {
	Name   string
	Error  string // why its limits are not known
	Limits []Limit
	Spent  []Spending
	// Spender is who spent most.
	Spender string
}

// A Limit is a budget, what is left of it, and its forecast.
type Limit struct {
	Name                            string
	Units, Reserve, Used, Remaining int64
	Lent                            int64 // of Units
	Style                           term.Style
	Outlook                         string // the one thing that is worth knowing
	Notes                           []string
	Forecast                        Line
	Curve                           *Curve // nil: there is none
	NoCurve                         string // why
}

// A Curve is what a limit's window holds over time, before and after now.
type Curve struct {
	From, Now, Until time.Time
	Full             time.Time // when the budget is gone if it is spent evenly from the beginning
	Held             []Point   // what the window holds now, by when it was spent; the last is at Now
	Ahead            []Point   // the forecast; the first is at Now
	DryAt            time.Time // when the forecast stops a run; zero: it does not
	OpensAt          time.Time // when the limit, which is closed, opens; zero: it is open
	ResetsAt         time.Time // when all units come back; zero: they come back one by one
}

// A Point is how many units a limit holds at a time.
type Point struct {
	At    time.Time
	Units int64
}

// A Spending is who spent what of a credential's limits.
type Spending struct {
	By     string // "job"
	Note   string // of which time
	Error  string // why it is not known
	Shares []Share
}

// A Share is what one spender spent.
type Share struct {
	Name    string
	Units   int64
	Percent string
	Part    float64 // of the greatest share, from 0 to 1
}

// A Trouble is something that needs a person.
type Trouble struct {
	Of string // what it is about
	Line
	Do string // a command that repairs it, or says more
}

// A Job is what a job did and does next.
type Job struct {
	Name     string
	Schedule string
	Next     string
	Last     Line
	Lines    []Line
	Passes   []Pass   // those of the last run that did not end well
	Ring     []Region // from the first of the configuration on
	More     int64    // regions that are not among these
}

// A Pass is what became of one.
type Pass struct {
	Line
	Tail []string // the last lines that it printed
}

// A Region is one of a job's ring.
type Region struct {
	Name   string
	Mark   string // what its pass in the last run came to, as a character; empty: it had none
	Title  string
	Style  term.Style
	Cursor bool // the next run begins here
}

// A Day is what ran in the last 24 hours.
type Day struct {
	From, Until time.Time
	Error       string // why it is not known
	Note        string // what is not known of it
	Lanes       []Lane
}

// A Week is what each job did on each of the last days.
type Week struct {
	Note string // what is not known of it
	Days []string
	Rows []WeekRow
}

// A WeekRow is one job.
type WeekRow struct {
	Job   string
	Cells []WeekCell // one for each of Days
}

// A WeekCell is one job on one day. It is empty if no run began.
type WeekCell struct {
	Units, Runs string
	Style       term.Style
}

// A Lane is what one job did in a day.
type Lane struct {
	Job   string
	Text  string // all in all
	Runs  []Bar
	Skips []Bar // ticks that did not become a run, from the first slot to the last
}

// A Bar is one run.
type Bar struct {
	From, To time.Time
	Style    term.Style
	Title    string
}

// Refusals are the latest refused calls.
type Refusals struct {
	Error string // why they are not known
	Note  string // of which time
	Rows  []Refusal
}

// A Refusal is one row of these.
type Refusal struct {
	At, By, What, Why string
	Times             string
}
