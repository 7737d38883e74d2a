"""The names of options that change neither rows nor what other writers rely on, by subject.

A program that reads or writes files may ignore them: they say how an engine, a catalog or an upkeep job works, or how
fast. Options of this kind of which more is to be said are in `pktable_spec.option_table`.

Clauses: TBL-32.
"""

from __future__ import annotations

from typing import Final

HARMLESS_NAMES: Final = {
    "The work of Flink's sources, sinks and lookup joins, and the number of its tasks.": """
        chain-table.streaming.merge-snapshot changelog-producer.compaction-interval
        changelog.precommit-compact.buffer-size changelog.precommit-compact.thread-num commit.custom-listeners
        commit.force-create-snapshot compaction.bucket-distribution-strategy continuous.discovery-interval
        data-evolution.row-id-conflict-rewrite.max-size end-input.watermark filesystem.job-level-settings.enabled
        key-value.sequence_number.enabled local-merge-buffer-size log.scan.remove-normalize lookup.async
        lookup.async-thread-number lookup.blob-as-descriptor lookup.bootstrap-parallelism lookup.cache
        lookup.cache-rows lookup.continuous.discovery-interval lookup.dynamic-partition
        lookup.dynamic-partition.refresh-interval lookup.dynamic-partition.refresh.async lookup.hash-load-factor
        lookup.refresh.async lookup.refresh.async.pending-snapshot-count lookup.refresh.full-load-threshold
        lookup.refresh.time-periods-blacklist partition.idle-time-to-done partition.idle-time-to-report-statistic
        partition.mark-done-action partition.mark-done-action.custom.class partition.mark-done-action.http.params
        partition.mark-done-action.http.url partition.mark-done-action.mode partition.mark-done.recover-from-state
        partition.sink-strategy partition.time-interval scan.bounded scan.bounded.watermark
        scan.dedicated-split-generation scan.fallback-branch.read-fail-fast scan.infer-parallelism
        scan.infer-parallelism.max scan.max-snapshot.count scan.max-splits-per-task scan.parallelism
        scan.partitions scan.remove-normalize scan.split-enumerator.batch-size scan.split-enumerator.mode
        scan.watermark.alignment.group scan.watermark.alignment.max-drift scan.watermark.alignment.update-interval
        scan.watermark.emit.strategy scan.watermark.idle-timeout schema.* sink.clustering.by-columns
        sink.clustering.sample-factor sink.clustering.sort-in-cluster sink.clustering.strategy sink.committer-cpu
        sink.committer-memory sink.committer-operator-chaining sink.coordinator-commit.enabled
        sink.cross-partition.managed-memory sink.key-only-deletes.enabled sink.managed.writer-buffer-memory
        sink.operator-uid.suffix sink.parallelism sink.process-time-zone sink.use-managed-memory-allocator
        sink.watermark-time-zone sink.writer-coordinator.cache-expire-after-access
        sink.writer-coordinator.cache-memory sink.writer-coordinator.cache-soft-values
        sink.writer-coordinator.enabled sink.writer-coordinator.page-size
        sink.writer-coordinator.prefetch-manifests sink.writer-cpu sink.writer-memory
        sink.writer-refresh-detectors source.checkpoint-align.enabled source.checkpoint-align.timeout
        source.operator-uid.suffix stream-scan-mode streaming-read-append-overwrite streaming-read-overwrite
        streaming-read.shuffle-bucket-with-partition streaming.read.snapshot.delay
        unaware-bucket.compaction.parallelism unaware-bucket.no-shuffle
    """,
    "The statements and streams of Spark, and their portions.": """
        data-evolution.merge-into.file-pruning data-evolution.merge-into.source-persist
        legacy-timestamp-mapping.enabled partition.end-input-to-done read.allow.fullScan read.batch-size
        read.changelog read.shuffle-bucket-with-partition read.stream.maxBytesPerTrigger
        read.stream.maxFilesPerTrigger read.stream.maxRowsPerTrigger read.stream.maxTriggerDelayMs
        read.stream.minRowsPerTrigger requiredSparkConfsCheck.enabled source.split.target-size-with-column-pruning
        write.batch-memory write.batch-size write.data-evolution.update-conflict-retry.max-attempts
        write.data-evolution.update-conflict-retry.wait-ms write.hive-style-dynamic-partition.enabled
        write.merge-schema write.merge-schema.explicit-cast write.merge-schema.type-widening
        write.sequence-number-init-mode write.use-v2-write
    """,
    "The upkeep of snapshots, tags, partitions, consumers and old rows.": """
        compaction.skip-expired-partitions consumer.changelog-only consumer.ignore-progress consumer.mode
        end-input.check-partition-expire partition.expiration-batch-size
        partition.expiration-check-interval partition.expiration-max-num partition.expiration-strategy
        partition.timestamp-formatter partition.timestamp-pattern record-level.time-field
        scan.plan-auto-tag-for-read.time-retained sink.savepoint.auto-tag snapshot.clean-empty-directories
        snapshot.expire.clean-empty-directories snapshot.expire.execution-mode snapshot.ignore-empty-commit
        snapshot.watermark-idle-timeout tag.automatic-completion tag.batch.customized-name tag.callback.*.param
        tag.callbacks tag.create-success-file tag.creation-delay tag.creation-period tag.creation-period-duration
        tag.num-retained-max tag.period-formatter tag.time-expire-enabled
    """,
    "The size of a compaction, the order of rows in append tables, and caches.": """
        clustering.columns clustering.history-partition.idle-to-full-sort clustering.history-partition.limit
        clustering.incremental clustering.incremental.mode clustering.incremental.optimize-write
        clustering.strategy compaction.file-num-limit compaction.force-rewrite-all-files
        compaction.force-up-level-0 compaction.incremental-size-threshold compaction.offpeak-ratio
        compaction.offpeak.end.hour compaction.offpeak.start.hour compaction.optimization-interval
        compaction.small-file-ratio compaction.total-size-threshold lookup-compact.max-interval
        lookup.cache-file-retention lookup.cache-max-disk-size lookup.cache-max-memory-size
        lookup.cache-spill-compression lookup.cache.bloom.filter.enabled lookup.cache.bloom.filter.fpp
        lookup.cache.high-priority-pool-ratio lookup.merge-buffer-size lookup.merge-records-threshold
        lookup.remote-file.enabled lookup.remote-file.level-threshold num-sorted-run.stop-trigger
        sort-compaction.local-sample.magnification sort-compaction.range-strategy
    """,
    "The memory, disks and threads of writers and readers, files next to data files, and repeated attempts.": """
        async-file-write bucket-append-ordered cache-page-size chain-table.split.key-range-enabled
        changelog.precommit-compact commit.callback.*.param commit.discard-duplicate-files commit.max-retries
        commit.max-retry-wait commit.min-retry-wait commit.native.enabled commit.timeout commit.user-prefix
        data-evolution.compaction.rewrite-row-ids data-evolution.reassign.skip-contiguous-row-count
        data-evolution.row-sidecar.enabled data-evolution.row-sidecar.max-selected-rows
        data-evolution.row-sidecar.max-selection-ratio data-evolution.write-cols-optimization.enabled
        delete-file.thread-num delete.force-produce-changelog file-operation.thread-num
        file-reader-async-threshold incremental-between-scan-mode incremental-between-tag-to-snapshot
        local-cache.* local-kv-db.block-size local-sort.max-num-file-handles overwrite-upgrade page-size
        precommit-compact read.native.enabled read.parallelism row-tracking.partition-group-on-commit
        scan.ignore-corrupt-files scan.ignore-lost-files scan.manifest.parallelism scan.native-plan.enabled
        scan.plan-sort-partition sort-engine sort-spill-buffer-size sort-spill-threshold source.split.target-size
        spill-compression spill-compression.zstd-level target-file-row-num write-buffer-for-append
        write-buffer-spill.max-disk-size write-buffer-spillable write-max-writers-to-spill write.native.enabled
    """,
    "Indexes that a reader may leave aside.": """
        bitmap-index.compression bitmap-index.compression-level bitmap-index.dictionary-block-size
        bitmap-index.fallback-scan-max-size btree-index.block-size btree-index.bloom-filter.enabled
        btree-index.build.max-parallelism btree-index.cache-size btree-index.compression
        btree-index.compression-level btree-index.fallback-scan-max-size btree-index.high-priority-pool-ratio
        btree-index.records-per-range fields.*.pk-bitmap.index.options fields.*.pk-btree.index.options
        fields.*.pk-multivalue.index.options file-index.*.*.* file-index.*.columns
        file-index.in-manifest-threshold file-index.read.enabled full-text-index.search-mode full-text.*
        global-index.build.max-parallelism global-index.build.max-shard global-index.build.parallelism
        global-index.enabled global-index.filter.refine-from-data global-index.row-count-per-shard
        global-index.search-mode global-index.thread-num lumina.diskann.build.ef_construction
        lumina.diskann.build.neighbor_count lumina.diskann.build.thread_count lumina.diskann.search.beam_width
        lumina.diskann.search.list_size lumina.distance.metric lumina.encoding.pq.m lumina.encoding.type
        lumina.index.dimension lumina.index.type lumina.pretrain.sample_ratio lumina.search.parallel_number
        multivalue-index.compression multivalue-index.compression-level multivalue-index.dictionary-block-size
        pk-bitmap.index.columns pk-btree.index.columns pk-multivalue.index.columns scalar-index.search-mode
        sorted-index.build.max-parallelism sorted-index.records-per-file sorted-index.records-per-range
        vector-index.search-mode vector-search.distribute.enabled vector-search.lateral-join.batch-size
        vector-search.lateral-join.parallelism zorder.var-length-contribution
    """,
    "The form of new data files and manifests; readers go by what the file says.": """
        avro.codec avro.row-name-mapping data-file.external-paths.weights data-file.prefix fields.*.stats-mode
        file.compression.per.level file.compression.per.level.* file.suffix.include.compression
        manifest-sort.enabled manifest-sort.max-rewrite-size manifest-sort.partition-field
        manifest.delete-file-drop-stats manifest.merge-optimize.enabled manifest.sidecar.enabled
        metadata.stats-keep-first-n-columns metadata.stats-mode.per.level metadata.stats-mode.per.level.* mosaic.*
        orc.* orc.column.encoding.direct orc.dictionary.key.threshold orc.write.batch-size parquet.*
        parquet.enable.dictionary
    """,
    "The form of BLOB, VECTOR and VARIANT; a VARIANT is stored whole, and a column of the others is refused.": """
        blob-as-descriptor blob-compaction.enabled blob-descriptor.source-table blob-external-storage-field
        blob-external-storage-path blob-view.resolve.enabled blob-write-null-on-fetch-failure
        blob-write-null-on-missing-file blob.copy-buffer-size blob.split-by-file-size blob.target-file-size
        field.*.vector-dim fields.*.map.shared-shredding.column-placement-policy
        fields.*.map.shared-shredding.max-columns parquet.variant.shreddingSchema variant.inferShreddingSchema
        variant.shredding.adaptive.maxInferBufferRow variant.shredding.adaptive.retentionRatio
        variant.shredding.inferenceMode variant.shredding.maxInferBufferRow variant.shredding.maxSchemaDepth
        variant.shredding.maxSchemaWidth variant.shredding.minFieldCardinalityRatio variant.shreddingSchema
        vector-field vector.target-file-size
    """,
    "The choice of buckets where their number is not fixed, which is made in another way here.": """
        cross-partition-upsert.bootstrap-parallelism cross-partition-upsert.index-ttl
        postpone.batch-write-fixed-bucket
        postpone.batch-write-fixed-bucket.max-parallelism postpone.batch-write-fixed-bucket.rescale-load-factor
        postpone.target-row-num-per-bucket postpone.target-size-per-bucket
    """,
    "The Iceberg metadata next to a table; they lag until Paimon's next commit.": """
        metadata.iceberg.compaction.max.file-num metadata.iceberg.compaction.min.file-num
        metadata.iceberg.database metadata.iceberg.delete-after-commit.enabled metadata.iceberg.format-version
        metadata.iceberg.glue.skip-archive metadata.iceberg.hadoop-conf-dir metadata.iceberg.hive-client-class
        metadata.iceberg.hive-conf-dir metadata.iceberg.hive-skip-update-stats
        metadata.iceberg.manifest-compression metadata.iceberg.manifest-legacy-version
        metadata.iceberg.previous-versions-max metadata.iceberg.storage-location metadata.iceberg.table
        metadata.iceberg.uri
    """,
    "The view of a table in catalogs, its alterations, and tables of other formats.": """
        add-column-before-partition alter-column-null-to-not-null.disabled auto-create csv.*
        deletion-vectors.modifiable disable-explicit-type-casting format-table.commit-hive-sync-url
        format-table.file.compression format-table.implementation format-table.partition-path-only-value
        format-table.repair.collect-statistics format-table.scan.list-parallelism
        format-table.statistics.parallelism json.* materialized-table.definition-query
        materialized-table.interval-freshness materialized-table.interval-freshness.time-unit
        materialized-table.logical-refresh-mode materialized-table.refresh-handler-bytes
        materialized-table.refresh-handler-description materialized-table.refresh-mode
        materialized-table.refresh-status metastore.partitioned-table metastore.tag-to-partition
        metastore.tag-to-partition.preview partition primary-key table.type text.*
        visibility-callback.check-interval visibility-callback.enabled visibility-callback.timeout
    """,
    "Options of Paimon 0.9 that later releases have not.": """
        compaction.early-max.file-num compaction.max.file-num kafka.* log.changelog-mode log.consistency
        log.format log.key.format log.system log.system.auto-register log.system.partitions log.system.replication
        lookup.local-file-type metadata.iceberg-compatible record-level.time-field-type streaming-read-mode
        write-manifest-cache
    """,
}
"""The names by their subject. ``*`` stands for any text."""
