// A table in a directory, read as docs/reading-a-table.md says, step by step.

import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { recordsOf } from './avro.mjs'
import { decoding, expect } from './damaged.mjs'
import { parquetRecords, rowsOf } from './datafile.mjs'
import { engineOf } from './engines.mjs'
import { inPath, textsOf } from './partitions.mjs'
import { vectorsOf } from './vectors.mjs'
import { compare, conversion, textOf, typeOf, valueOf } from './values.mjs'

const KINDS = ['+I', '-U', '+U', '-D']
const ADDS = [0, 2] // +I and +U
const OPERATORS = {
  '=': (order) => order === 0,
  '<>': (order) => order !== 0,
  '<': (order) => order < 0,
  '<=': (order) => order <= 0,
  '>': (order) => order > 0,
  '>=': (order) => order >= 0,
}
/** How the options begin that change rows (options.md), and the options among them that this reader may ignore. */
const CHANGES_ROWS =
  /^(fields?\.|sequence\.|merge-|deletion-vectors\.|partial-update\.|aggregation\.|deduplicate\.|first-row\.|ignore-|force-|rowkind\.|record-level\.|changelog-|bucket|primary-key|pk-|scan\.|log\.scan|incremental-|branch|chain-table\.|postpone\.|batch-|query-auth|partition\.|data-evolution\.|row-tracking\.|data-file\.|index-file-|manifest\.|type$)/
const KNOWN =
  /^(merge-engine|fields\..+\.(aggregate-function|ignore-retract|sequence-group|distinct|nested-key|count-limit|list-agg-delimiter)|fields\.default-aggregate-function|((deduplicate|first-row|partial-update)\.)?ignore-delete|(aggregation|partial-update)\.remove-record-on-[a-z-]+|sequence\.field(\.sort-order)?|deletion-vectors\.(enabled|bitmap64|merge-on-read|version|target-file-size)|bucket(-key)?|partition\.(default|legacy)-name|changelog-producer|data-file\.(thin-mode|prefix|path-directory)|index-file-in-data-file-dir|changelog\.[a-z.-]+|dynamic-bucket\.[a-z.-]+|manifest\.(format|compression|target-file-size|merge-min-count|full-compaction-threshold-size)|force-lookup|row-tracking\.enabled|data-evolution\.enabled)$/
const FIELDS = {
  list: '_VERSION _FILE_NAME _FILE_SIZE _NUM_ADDED_FILES _NUM_DELETED_FILES _PARTITION_STATS _SCHEMA_ID _MIN_BUCKET _MAX_BUCKET _MIN_LEVEL _MAX_LEVEL _MIN_ROW_ID _MAX_ROW_ID _TOTAL_BUCKETS _EXTRA_FILES',
  manifest: '_VERSION _KIND _PARTITION _BUCKET _TOTAL_BUCKETS _FILE',
  index:
    '_VERSION _KIND _PARTITION _BUCKET _INDEX_TYPE _FILE_NAME _FILE_SIZE _ROW_COUNT _DELETIONS_VECTORS_RANGES _EXTERNAL_PATH _GLOBAL_INDEX',
  file: '_FILE_NAME _FILE_SIZE _ROW_COUNT _MIN_KEY _MAX_KEY _KEY_STATS _VALUE_STATS _MIN_SEQUENCE_NUMBER _MAX_SEQUENCE_NUMBER _SCHEMA_ID _LEVEL _EXTRA_FILES _CREATION_TIME _DELETE_ROW_COUNT _EMBEDDED_FILE_INDEX _FILE_SOURCE _VALUE_STATS_COLS _EXTERNAL_PATH _FIRST_ROW_ID _WRITE_COLS _WRITE_COLS_SEQUENCES',
}

/** The table in a directory, or a branch of it. */
export class Table {
  constructor(root, branch) {
    this.root = root
    this.own = branch === undefined ? '' : `branch/branch-${branch}/`
    const numbers = this.numbers('schema', 'schema-')
    expect(numbers.length, 'expected a schema, found none')
    this.latest = this.schema(Math.max(...numbers))
    for (const name of Object.keys(this.latest.options)) {
      expect(!CHANGES_ROWS.test(name) || KNOWN.test(name), `the option ${name} is not known`)
    }
    for (const { id, name, type } of this.latest.fields.filter((field) => this.latest.primaryKeys.includes(field.name))) {
      for (const older of numbers.flatMap((number) => this.schema(number).fields)) {
        const isSame = older.id !== id || JSON.stringify(older.type) === JSON.stringify(type)
        expect(isSame, `the type of the key column ${name} has changed`)
      }
    }
  }

  // ---------------------------------------------------------------- files

  /** Return the bytes of a file. `size`: what metadata says, if it says it. */
  stored(name, size) {
    const path = join(this.root, name)
    expect(existsSync(path), `${name}: expected a file, found none`)
    const data = readFileSync(path)
    const isRight = size === undefined || size === null || BigInt(size) === BigInt(data.length)
    expect(isRight, `${name}: expected ${size} bytes, found ${data.length}`)
    return data
  }

  json(name) {
    return decoding(name, () => JSON.parse(this.stored(name)))
  }

  /** Return the records of a file in `manifest/`. Clauses: META-23, META-60. */
  async records(name, fields, version, size) {
    const known = FIELDS[fields].split(' ')
    const data = this.stored(`manifest/${name}`, size)
    const isParquet = data.subarray(0, 4).toString('latin1') === 'PAR1'
    const found = isParquet ? await parquetRecords(name, data) : recordsOf(name, data)
    for (const record of found) {
      expect(record._VERSION === version, `${name}: expected the version ${version}, found ${record._VERSION}`)
      allKnown(name, record, known)
    }
    return found
  }

  /** Return the numbers of the files of a name, those up to which a number is exact. Clauses: META-57. */
  numbers(folder, start) {
    const path = join(this.root, this.own, folder)
    const names = existsSync(path) ? readdirSync(path) : []
    const found = names.filter((name) => name.startsWith(start)).map((name) => Number(name.slice(start.length)))
    return found.filter(Number.isSafeInteger).sort((a, b) => a - b)
  }

  schema(number) {
    const found = this.json(`${this.own}schema/schema-${number}`)
    expect(found.id === Number(number), `schema-${number}: found the id ${found.id}`)
    const fields = found.fields.map(({ id, name, type }) => ({ id, name, type: typeOf(type) }))
    return { ...found, options: found.options ?? {}, fields }
  }

  /** Return the snapshot of a request, null for a table that has none. Clauses: CMT-13, CMT-51, RD-10, RD-17. */
  snapshot({ tag, snapshot, timestamp }) {
    if (tag !== undefined) return this.snapshotOf(`tag/tag-${tag}`)
    if (snapshot !== undefined) {
      expect(!this.hasEnded(snapshot), `snapshot ${snapshot} has expired or was rolled back`)
      return this.numbered(snapshot)
    }
    const numbers = this.numbers('snapshot', 'snapshot-').filter((number) => !this.hasEnded(number))
    if (timestamp !== undefined) {
      const found = numbers.map((number) => this.numbered(number)).filter((one) => one.timeMillis <= timestamp)
      expect(found.length, `no snapshot is as old as ${timestamp}`)
      return found.at(-1)
    }
    const hasHint = existsSync(join(this.root, this.own, 'snapshot/LATEST'))
    expect(numbers.length || !hasHint, 'expected snapshots, found a hint of them alone')
    return numbers.length ? this.numbered(numbers.at(-1)) : null
  }

  /** Whether the file of an id is no snapshot by the newest fence. Clauses: CMT-36, CMT-42, META-52, META-53. */
  hasEnded(number) {
    const fences = this.numbers('fence', 'fence-')
    if (!fences.length) return false
    const { expired, rollbacks } = this.fence(fences.at(-1))
    if (number <= expired) return true
    const above = rollbacks.filter(({ target }) => number > target)
    if (!above.length || !existsSync(join(this.root, this.own, `snapshot/snapshot-${number}`))) return false
    const { deltaManifestList, 'pktable.fence': known } = this.numbered(number)
    if (known !== undefined) return above.some(({ fence }) => known < fence)
    const naming = above.filter(({ fence }) => fences.includes(fence) && fence > fences.at(-1) - 100)
    return naming.some(({ fence }) => this.fence(fence).ended[number] === deltaManifestList)
  }

  fence(number) {
    const found = this.json(`${this.own}fence/fence-${number}`)
    expect(found.version === 1, `fence-${number}: expected the version 1, found ${found.version}`)
    return found
  }

  numbered(number) {
    const found = this.snapshotOf(`snapshot/snapshot-${number}`)
    expect(found.id === number, `snapshot-${number}: found the id ${found.id}`)
    return found
  }

  snapshotOf(name) {
    const found = this.json(this.own + name)
    expect(found.version === 3, `${name}: expected the version 3, found ${found.version}`)
    for (const field of ['schemaId', 'baseManifestList', 'deltaManifestList']) {
      expect(field in found, `${name}: expected the field ${field}, found none`)
    }
    return found
  }

  // ----------------------------------------------------------------- plan

  /** Return the live data files, each with partition and bucket. Clauses: CMT-4, META-3, META-12. */
  async files(snapshot) {
    const live = new Map()
    for (const which of ['base', 'delta']) for (const entry of await this.entries(snapshot, which)) take(live, entry)
    return [...live.values()]
  }

  /** Return the entries of the manifests of a list of a snapshot, in order. `which`: base, delta or changelog. */
  async entries(snapshot, which) {
    const list = snapshot[`${which}ManifestList`]
    const found = []
    for (const meta of await this.records(list, 'list', 2, snapshot[`${which}ManifestListSize`])) {
      const name = meta._FILE_NAME
      const entries = await this.records(name, 'manifest', 2, meta._FILE_SIZE)
      const added = entries.filter((entry) => entry._KIND === 0).length
      const isRight =
        BigInt(added) === meta._NUM_ADDED_FILES && BigInt(entries.length - added) === meta._NUM_DELETED_FILES
      expect(isRight, `${name}: ${added} of ${entries.length} entries are added files`)
      for (const entry of entries) allKnown(name, entry._FILE, FIELDS.file.split(' '))
      found.push(...entries)
    }
    return found
  }

  /** Return the deleted positions of the data files of a snapshot, by `placeOf`. Clauses: DV-16, META-50. */
  async vectors(snapshot, schema, hasBuckets) {
    const found = new Map()
    const buckets = new Set()
    if (!snapshot.indexManifest) return found
    for (const entry of await this.records(snapshot.indexManifest, 'index', 1)) {
      const name = entry._FILE_NAME
      expect(entry._KIND === 0, `${snapshot.indexManifest}: an entry of kind ${entry._KIND}`)
      if (entry._INDEX_TYPE !== 'DELETION_VECTORS') continue
      expect((entry._EXTERNAL_PATH ?? null) === null, `${name}: external paths are not known`)
      const bucket = placeOf(entry, '')
      expect(!buckets.has(bucket) || !hasBuckets, `the bucket of ${name} has two DV index files`)
      buckets.add(bucket)
      const isBeside = this.latest.options['index-file-in-data-file-dir'] === 'true'
      const folder = isBeside ? this.directory(entry._PARTITION, entry._BUCKET, schema) : 'index'
      const data = this.stored(join(folder, name), entry._FILE_SIZE)
      for (const [file, positions] of decoding(name, () => vectorsOf(entry, data))) {
        const place = placeOf(entry, file)
        expect(!found.has(place), `${file} has two vectors`)
        found.set(place, positions)
      }
    }
    return found
  }

  // ----------------------------------------------------------------- rows

  /** Return the changes after a snapshot up to another one, each behind its kind. Clauses: CHG-11 to CHG-13, CHG-18. */
  async changes([after, upTo]) {
    const isRecorded = (this.latest.options['changelog-producer'] ?? 'none') !== 'none'
    const found = []
    for (let number = after + 1; number <= upTo; number++) {
      const isKept = existsSync(join(this.root, this.own, `changelog/changelog-${number}`))
      const snapshot = isKept ? this.snapshotOf(`changelog/changelog-${number}`) : this.snapshot({ snapshot: number })
      expect(snapshot.commitKind !== 'OVERWRITE', `snapshot ${number} is an OVERWRITE`)
      if (isRecorded ? !snapshot.changelogManifestList : snapshot.commitKind !== 'APPEND') continue
      const files = (await this.entries(snapshot, isRecorded ? 'changelog' : 'delta')).map(fileOf)
      for (const file of files.filter((one) => isRecorded || one._LEVEL === 0)) {
        for (const { kind, row } of await this.recordsOf(file, this.latest)) {
          found.push([KINDS[kind], ...row.map((value, at) => textOf(value, this.latest.fields[at].type))])
        }
      }
    }
    return found
  }

  /** Return the rows of a read, as the protocol spells them. */
  async read(request) {
    if (request.branch !== undefined) {
      const { branch, ...rest } = request
      return new Table(this.root, branch).read(rest)
    }
    if (request.changes !== undefined) return this.changes(request.changes)
    const snapshot = this.snapshot(request)
    const schema = snapshot === null || !isNamed(request) ? this.latest : this.schema(snapshot.schemaId)
    const types = Object.fromEntries(schema.fields.map(({ name, type }) => [name, type]))
    const at = Object.fromEntries(schema.fields.map(({ name }, number) => [name, number]))
    let rows = snapshot === null ? [] : await this.rows(snapshot, schema, Boolean(request.fresh))
    for (const [column, operator, text] of request.where ?? []) {
      const value = valueOf(text, types[column])
      const holds = (found) => found !== null && OPERATORS[operator](compare(found, value))
      rows = rows.filter((row) => holds(row[at[column]]))
    }
    const names = request.columns ?? Object.keys(types)
    return rows.slice(0, request.limit).map((row) => names.map((name) => textOf(row[at[name]], types[name])))
  }

  /** Return the rows of a snapshot in the columns of a schema. Clauses: RD-1, RD-4, RD-5, RD-13, RD-22, RD-28, DV-15. */
  async rows(snapshot, schema, fresh) {
    const options = this.latest.options
    const hasKey = schema.primaryKeys.length > 0
    const hasVectors = enabled(this.schema(snapshot.schemaId))
    const isFirstRow = options['merge-engine'] === 'first-row'
    const mergesAll = (!hasVectors && !isFirstRow) || fresh || options['deletion-vectors.merge-on-read'] === 'true'
    const deleted = await this.vectors(snapshot, schema, hasKey || Number(options.bucket ?? -1) > 0)
    const isEvolved = options['data-evolution.enabled'] === 'true'
    expect(!isEvolved || !deleted.size, 'data evolution with deletion vectors is not known')
    const isOrdered = options['sequence.field'] !== undefined
    const isRemembered = (record) => !record.isDeleted || !record.isAdd
    const buckets = new Map()
    for (const file of await this.files(snapshot)) {
      if (file.bucket === -2) continue
      const gone = deleted.get(file.place) ?? new Set()
      const count = file._ROW_COUNT
      for (const position of gone) expect(position < count, `${file._FILE_NAME}: position ${position} of ${count}`)
      file.isOlder = hasVectors && !enabled(this.schema(file._SCHEMA_ID))
      if (hasKey && !mergesAll && file._LEVEL === 0 && !file.isOlder) continue
      const records = await this.recordsOf(file, schema)
      records.forEach((record, position) => (record.isDeleted = gone.has(BigInt(position))))
      if (!buckets.has(file.inBucket)) buckets.set(file.inBucket, [])
      const live = records.filter((record) => !record.isDeleted)
      buckets.get(file.inBucket).push({ file, records: live, remembered: isOrdered ? records.filter(isRemembered) : live })
    }
    return [...buckets.values()].flatMap((runs) => {
      if (isEvolved) return this.stitched(runs, schema)
      const isSimple = !hasKey || (!mergesAll && !mustMerge(runs))
      return isSimple ? runs.flatMap(({ records }) => records.map((one) => one.row)) : this.merged(runs, schema, hasVectors)
    })
  }

  /** Return the records of a data file, each with its kind, sequence number and row in the columns of a schema. */
  async recordsOf(file, schema) {
    const name = file._FILE_NAME
    expect((file._EXTERNAL_PATH ?? null) === null, `${name}: external paths are not known`)
    const data = this.stored(join(this.directory(file.partition, file.bucket, schema), name), file._FILE_SIZE)
    const columns = this.columnsOf(file, schema)
    const types = Object.fromEntries(columns.filter(Boolean).map((column) => [column.name, column.type]))
    const own = schema.primaryKeys.length ? { _SEQUENCE_NUMBER: null, _VALUE_KIND: null } : {}
    const rows = await rowsOf(name, data, { ...types, ...own })
    expect(BigInt(rows.length) === file._ROW_COUNT, `${name}: ${rows.length} rows, not ${file._ROW_COUNT}`)
    return rows.map((row) => ({
      sequence: row._SEQUENCE_NUMBER,
      kind: row._VALUE_KIND,
      isAdd: ADDS.includes(row._VALUE_KIND),
      row: columns.map((column) => (column ? column.convert(row[column.name]) : null)),
    }))
  }

  /** Return how a data file has each column of a schema, undefined if it does not. Clauses: META-15, RD-31. */
  columnsOf(file, schema) {
    const then = new Map(this.schema(file._SCHEMA_ID).fields.map((field) => [field.id, field]))
    const written = file._WRITE_COLS ?? null
    return schema.fields.map(({ id, type }) => {
      const old = then.get(id)
      const isThere = old && (written === null || written.includes(old.name))
      return isThere ? { name: old.name, convert: conversion(old.type, type), type: old.type } : undefined
    })
  }

  /** Return the rows of files with the same row ids: each column is that of the newest that has it. Clauses: APP-23. */
  stitched(runs, schema) {
    const ofOneId = new Map()
    for (const run of runs) {
      const id = run.file._FIRST_ROW_ID ?? run.file.place
      ofOneId.set(id, [...(ofOneId.get(id) ?? []), run])
    }
    return [...ofOneId.values()].flatMap((files) => {
      files.sort((a, b) => compare(b.file._MAX_SEQUENCE_NUMBER, a.file._MAX_SEQUENCE_NUMBER))
      const counts = new Set(files.map(({ records }) => records.length))
      expect(counts.size === 1, `${files[0].file._FILE_NAME}: other files of its row ids have more or less rows`)
      const sources = schema.fields.map((_, at) => files.find(({ file }) => this.columnsOf(file, schema)[at]))
      return files[0].records.map((_, number) => sources.map((run, at) => run?.records[number].row[at] ?? null))
    })
  }

  /** Return the row that each key has. Clauses: CHG-19, DV-22, MRG-1, MRG-2, MRG-6, MRG-19. */
  merged(runs, schema, hasVectors) {
    const options = optionsUnder(this.latest, schema)
    const fold = engineOf(options, schema)
    const at = (name) => schema.fields.findIndex((field) => field.name === name)
    const key = schema.primaryKeys.map(at)
    const ordering = (options['sequence.field'] ?? '').split(',').filter(Boolean).map((name) => at(name.trim()))
    const sign = options['sequence.field.sort-order'] === 'descending' ? -1 : 1
    const isHeld = this.holdsDeeper(runs, hasVectors) ? isDeeper : () => false
    const byKey = new Map()
    for (const { file, remembered } of runs.sort((a, b) => newerRun(b.file, a.file))) {
      for (const record of remembered) {
        const identity = JSON.stringify(key.map((number) => textOf(record.row[number], schema.fields[number].type)))
        if (!byKey.has(identity)) byKey.set(identity, [])
        byKey.get(identity).push({ ...record, level: file._LEVEL })
      }
    }
    const rows = [...byKey.values()].map((records) => {
      const taken = records.filter((record) => !isHeld(record, records))
      return fold(taken.sort((a, b) => ageOf(a, b, ordering, sign)))
    })
    return rows.filter((row) => row !== null)
  }

  /** Whether a record above level 0 holds what deeper ones of its key hold. Clauses: CHG-19, CHG-35. */
  holdsDeeper(runs, hasVectors) {
    if (!hasVectors) return looksUp(this.latest.options)
    const then = runs.filter(({ file }) => file._LEVEL > 0).map(({ file }) => this.schema(file._SCHEMA_ID))
    return looksUp(this.latest.options) && then.some((one) => !enabled(one) && looksUp(one.options))
  }

  /** Return the directory of the data files of a bucket. Clauses: META-9, META-31, META-49, META-81. */
  directory(partition, bucket, schema) {
    const types = new Map(schema.fields.map((field) => [field.name, field.type]))
    const legacy = this.latest.options['partition.legacy-name'] !== 'false'
    const own = schema.partitionKeys.map((name) => types.get(name))
    const values = decoding('_PARTITION', () => textsOf(partition, own, legacy))
    const empty = this.latest.options['partition.default-name'] ?? '__DEFAULT_PARTITION__'
    const text = (value) => (value === null || !value.trim() ? empty : value)
    const folders = schema.partitionKeys.map((name, number) => `${inPath(name)}=${inPath(text(values[number]))}`)
    return join(this.latest.options['data-file.path-directory'] ?? '', ...folders, `bucket-${bucket}`)
  }
}

/** Return the options of the latest schema with the names that columns have in another one. Clauses: RD-22. */
function optionsUnder(latest, schema) {
  const before = new Map(schema.fields.map(({ id, name }) => [id, name]))
  const names = new Map(latest.fields.map(({ id, name }) => [name, before.get(id)]))
  const renamed = (text) => {
    const columns = text.split(',').map((name) => name.trim())
    return columns.map((name) => (names.has(name) ? names.get(name) : name)).filter(Boolean).join(',')
  }
  const found = Object.entries(latest.options).map(([name, value]) => {
    const [, columns, ending] = /^fields\.(.+)\.([a-z-]+)$/.exec(name) ?? []
    const isNaming = /^sequence\.field$|sequence-group$/.test(name)
    const after = columns === undefined ? name : renamed(columns) && `fields.${renamed(columns)}.${ending}`
    return [after, isNaming ? renamed(value) : value]
  })
  return Object.fromEntries(found.filter(([name, value]) => name && value))
}

function allKnown(name, record, known) {
  for (const [field, value] of Object.entries(record)) {
    const isEmpty = value === null || value === undefined || (Array.isArray(value) && !value.length)
    expect(known.includes(field) || isEmpty, `${name}: the field ${field} is not known`)
  }
}

/** Take an entry of a manifest into the live files. */
function take(live, entry) {
  const file = fileOf(entry)
  const identity = `${file._LEVEL} ${file.place}`
  if (entry._KIND === 0) {
    expect(!live.has(identity), `${file._FILE_NAME} is added twice`)
    live.set(identity, file)
  } else {
    expect(entry._KIND === 1 && live.delete(identity), `${file._FILE_NAME} is deleted and was not added`)
  }
}

/** Return the data file of an entry, with where it is. */
function fileOf(entry) {
  const { _PARTITION: partition, _BUCKET: bucket, _FILE: file } = entry
  const places = { place: placeOf(entry, file._FILE_NAME), inBucket: placeOf(entry, '') }
  return { ...file, partition, bucket, ...places }
}

function placeOf(entry, name) {
  return `${entry._PARTITION.toString('hex')} ${entry._BUCKET} ${name}`
}

function isNamed(request) {
  return ['snapshot', 'tag', 'timestamp'].some((name) => request[name] !== undefined)
}

function enabled(schema) {
  return schema.options['deletion-vectors.enabled'] === 'true'
}

/** Whether compactions of level 0 merge what lies deeper into what they write. Clauses: CHG-19, CHG-35. */
function looksUp(options) {
  const isAsked = options['changelog-producer'] === 'lookup' || options['force-lookup'] === 'true'
  const isFolded = ['partial-update', 'aggregation'].includes(options['merge-engine'])
  return isAsked && (isFolded || options['sequence.field'] !== undefined)
}

/** Whether another record of the key, also above level 0, is less deep. */
function isDeeper({ level }, records) {
  return records.some((other) => other.level > 0 && other.level < level)
}

/** Whether a default read of a bucket with vectors has to merge. Clauses: RD-5, RD-28, DV-15. */
function mustMerge(runs) {
  const deepest = Math.max(...runs.map(({ file }) => file._LEVEL))
  return runs.some(
    ({ file, records }) => (file.isOlder && file._LEVEL < deepest) || records.some((record) => !record.isAdd),
  )
}

/** Compare two files: a negative number if the run of the first is newer. Clauses: LSM-4. */
function newerRun(a, b) {
  if (a._LEVEL || b._LEVEL) return a._LEVEL - b._LEVEL
  return (
    compare(b._MAX_SEQUENCE_NUMBER, a._MAX_SEQUENCE_NUMBER) ||
    compare(b._MIN_SEQUENCE_NUMBER, a._MIN_SEQUENCE_NUMBER) ||
    compare(a._CREATION_TIME ?? 0n, b._CREATION_TIME ?? 0n) ||
    compare(a._FILE_NAME, b._FILE_NAME)
  )
}

/** Compare two records of a key, of which the first is of an older run: a negative number if it is older. */
function ageOf(record, other, ordering, sign) {
  for (const at of ordering) {
    const [value, old] = [record.row[at], other.row[at]]
    const order = value === null || old === null ? Number(old === null) - Number(value === null) : sign * compare(value, old)
    if (order) return order
  }
  return compare(record.sequence, other.sequence) || Number(record.isAdd) - Number(other.isAdd)
}
