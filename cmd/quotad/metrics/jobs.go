package metrics

import "quotad/jobs"

func (m *Metrics) runChanged(run jobs.Run) {
	if run.State != jobs.RunRunning {
		m.runs.WithLabelValues(run.Job, string(run.State), string(run.Reason)).Inc()
	}
}

func (m *Metrics) overdueChanged(o jobs.Overdue) {
	value := 0.0
	if o.Is {
		value = 1
	}
	m.overdue.WithLabelValues(o.Job).Set(value)
}

func (m *Metrics) passChanged(run jobs.Run, pass jobs.Pass) {
	if pass.Outcome == jobs.Running {
		return
	}
	m.passes.WithLabelValues(run.Job, string(pass.Outcome), string(pass.Reason)).Inc()
	if pass.Outcome == jobs.Skipped || pass.Reason == jobs.Died {
		return // how long it ran is not known, or it never did
	}
	m.passTook.WithLabelValues(run.Job).Observe(pass.EndedAt.Sub(pass.StartedAt).Seconds())
	m.passUnits.WithLabelValues(run.Job).Add(float64(pass.Units))
}
