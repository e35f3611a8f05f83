// Package ledgertest holds the contract of quota.Ledger as a test suite, and the naive model that
// ledgers are compared with. The decision is one for all ledgers, so slidinglog runs these, alone and
// for two hosts on a store in memory, and boltledger on its file. A store runs the suites of stores.
//
// Run (suite*.go) gives a ledger small histories, each at times of its own on a [Clock]
// that tests set (history.go). Random histories (random.go) are played to a ledger and to
// the [Model] (model.go), which sums its whole log for each decision, and every answer is
// compared. The model is a ledger for the tests of those who need any.
//
// RunStore (store_suite*.go) holds the stores under the decision, slidinglog.Store, to their
// contract. [SimStore] is one in memory, for simulations: its clock can be set, and its logs
// can be flushed, replaced by an older copy, or lose the last records.
//
// RunClients, RandomClients and [ClientModel] (clients*.go) are the same for the ledger of
// client limits on a store; [ClientStore] is one in memory, which can be away.
package ledgertest
