package io.github.refitd.flink;

import io.github.refitd.snapshot.Keys;
import io.github.refitd.snapshot.Options;
import java.io.Serializable;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.ReadableConfig;
import org.apache.flink.table.api.ValidationException;
import org.apache.flink.table.catalog.Column;
import org.apache.flink.table.catalog.ResolvedSchema;
import org.apache.flink.table.factories.FactoryUtil;
import org.apache.flink.table.factories.ModelProviderFactory;
import org.apache.flink.table.functions.PredictFunction;
import org.apache.flink.table.ml.ModelProvider;
import org.apache.flink.table.ml.PredictRuntimeProvider;
import org.apache.flink.table.types.logical.LogicalType;

/**
 * The provider refitd of CREATE MODEL. Columns of INPUT are fields of events; those of OUTPUT are chosen of what
 * Scoring.OUTPUTS has.
 */
public final class RefitdProviderFactory implements ModelProviderFactory {
    static final ConfigOption<String> STORE = ConfigOptions.key("store").stringType().noDefaultValue()
            .withDescription("Directory of versions, or URL of a daemon; each task manager has to reach it.");
    static final ConfigOption<String> MODEL = ConfigOptions.key("model").stringType().noDefaultValue()
            .withDescription("Name of the model in the store.");
    static final ConfigOption<String> ALIAS = ConfigOptions.key("alias").stringType().defaultValue("champion")
            .withDescription("Alias that is followed.");
    static final ConfigOption<List<String>> TRUSTED_KEYS = ConfigOptions.key("trusted-keys").stringType().asList()
            .noDefaultValue().withDescription("Files of public keys; without them unsigned versions are accepted.");

    /** What a task needs to open a model. */
    record Settings(String store, String model, String alias, List<String> keys) implements Serializable {
        static Settings of(ReadableConfig config) {
            return new Settings(config.get(STORE), config.get(MODEL), config.get(ALIAS),
                    config.getOptional(TRUSTED_KEYS).<List<String>>map(List::copyOf).orElse(List.of()));
        }

        Options options() {
            Options options = new Options().alias(alias);
            return keys.isEmpty() ? options : options.keys(Keys.load(keys.stream().map(Path::of).toArray(Path[]::new)));
        }
    }

    @Override
    public String factoryIdentifier() {
        return "refitd";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of(STORE, MODEL);
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of(ALIAS, TRUSTED_KEYS);
    }

    @Override
    public ModelProvider createModelProvider(Context context) {
        FactoryUtil.ModelProviderFactoryHelper helper = FactoryUtil.createModelProviderFactoryHelper(this, context);
        helper.validate();
        ResolvedSchema out = context.getCatalogModel().getResolvedOutputSchema();
        for (Column column : out.getColumns()) {
            LogicalType want = Scoring.OUTPUTS.get(column.getName());
            if (want == null || !want.equals(column.getDataType().getLogicalType().copy(true))) {
                throw new ValidationException("OUTPUT column " + column.asSummaryString() + ": want some of "
                        + Scoring.OUTPUTS);
            }
        }
        return new Provider(new Scoring(Settings.of(helper.getOptions()),
                context.getCatalogModel().getResolvedInputSchema(), out));
    }

    private record Provider(Scoring scoring) implements PredictRuntimeProvider {
        @Override
        public PredictFunction createPredictFunction(ModelProvider.Context context) {
            return scoring;
        }

        @Override
        public ModelProvider copy() {
            return this; // it has no state
        }
    }
}
