// The runner: a JSON object a line in, one a line out, as docs/conform.md says.

import { createInterface } from 'node:readline'
import { Refused } from './damaged.mjs'
import { Table } from './table.mjs'

const ABOUT = {
  protocol: 1,
  name: 'node reader',
  commands: ['open', 'read'],
  features: [
    ...['keys', 'merge on read', 'append', 'vectors of 64 bits', 'sequence fields', 'evolution'],
    ...['first-row', 'partial-update', 'sequence groups', 'aggregation', 'engine retractions'],
    ...['nested', 'variant', 'avro', 'manifest formats', 'files of some columns', 'data evolution'],
    ...['snapshots', 'tags', 'times', 'branches', 'changes', 'fresh', 'columns', 'where', 'limit'],
  ],
}
let table = null

async function answer(request) {
  try {
    switch (request.do) {
      case 'supports':
        return { ok: ABOUT }
      case 'open':
        table = new Table(request.table)
        return { ok: null }
      case 'read':
        return { ok: { rows: await table.read(request) } }
      default:
        return { unsupported: request.do }
    }
  } catch (error) {
    return error instanceof Refused ? { refused: error.message } : { error: error.stack }
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line)
  process.stdout.write(`${JSON.stringify({ id: request.id, ...(await answer(request)) })}\n`)
}
