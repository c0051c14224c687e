package io.github.refitd.flink;

import io.github.refitd.snapshot.Model;
import io.github.refitd.snapshot.Position;
import io.github.refitd.snapshot.Prediction;
import io.github.refitd.snapshot.Snapshots;
import io.github.refitd.snapshot.Watcher;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.table.api.ValidationException;
import org.apache.flink.table.catalog.Column;
import org.apache.flink.table.catalog.ResolvedSchema;
import org.apache.flink.table.data.ArrayData;
import org.apache.flink.table.data.GenericArrayData;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.functions.FunctionContext;
import org.apache.flink.table.functions.PredictFunction;
import org.apache.flink.table.types.logical.ArrayType;
import org.apache.flink.table.types.logical.BigIntType;
import org.apache.flink.table.types.logical.DoubleType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.LogicalTypeRoot;
import org.apache.flink.table.types.logical.VarCharType;

/** Scores rows with the newest version. Each task has a watcher, and so a copy of the model. */
public final class Scoring extends PredictFunction {
    private static final long serialVersionUID = 1;
    private static final Duration PATIENCE = Duration.ofMinutes(1);

    /** What OUTPUT may have: label is text of the class or number, prediction the number of Prediction.value. */
    static final Map<String, LogicalType> OUTPUTS = Map.of("prediction", new DoubleType(), "label",
            VarCharType.STRING_TYPE, "outputs", new ArrayType(new DoubleType()), "probabilities",
            new ArrayType(new DoubleType()), "version", new BigIntType(), "delta", new BigIntType());

    private final RefitdProviderFactory.Settings settings;
    private final List<String> outputs;
    private final List<String> fields;
    private final List<LogicalType> types;
    private final List<RowData.FieldGetter> getters = new ArrayList<>();
    private transient Watcher watcher;

    Scoring(RefitdProviderFactory.Settings settings, ResolvedSchema in, ResolvedSchema out) {
        this.settings = settings;
        fields = new ArrayList<>(in.getColumnNames());
        outputs = new ArrayList<>(out.getColumnNames());
        types = new ArrayList<>();
        for (Column column : in.getColumns()) {
            LogicalType type = column.getDataType().getLogicalType();
            getters.add(RowData.createFieldGetter(type, types.size()));
            types.add(type);
            value(type, null); // says what it cannot read
        }
    }

    @Override
    public void open(FunctionContext context) throws Exception {
        watcher = Snapshots.watch(settings.store(), settings.model(), settings.options());
        watcher.await(PATIENCE);
    }

    @Override
    public void close() {
        if (watcher != null) {
            watcher.close();
        }
    }

    @Override
    public Collection<RowData> predict(RowData row) {
        Model model = watcher.model();
        if (model == null) {
            throw new IllegalStateException("version " + watcher.status().version() + " has expired: publish a new one");
        }
        Map<String, Object> event = new HashMap<>();
        for (int i = 0; i < types.size(); i++) {
            event.put(fields.get(i), value(types.get(i), getters.get(i).getFieldOrNull(row)));
        }
        Prediction p = model.predict(event);
        Position at = model.position();
        GenericRowData out = new GenericRowData(outputs.size());
        for (int i = 0; i < outputs.size(); i++) {
            out.setField(i, switch (outputs.get(i)) {
                case "prediction" -> p.value();
                case "label" -> StringData.fromString(p.label().toString());
                case "outputs" -> new GenericArrayData(p.outputs());
                case "probabilities" -> p.probabilities() == null ? null : new GenericArrayData(p.probabilities());
                case "version" -> at.version();
                default -> at.sequence();
            });
        }
        return List.of(out);
    }

    /** Returns a value of Flink as one of an event: a name, a number, a list of names, or null. */
    private static Object value(LogicalType type, Object value) {
        LogicalTypeRoot root = type.getTypeRoot();
        switch (root) {
            case CHAR, VARCHAR:
                return value == null ? null : value.toString();
            case TINYINT, SMALLINT, INTEGER, BIGINT:
                return value == null ? null : ((Number) value).longValue();
            case FLOAT, DOUBLE:
                return value == null ? null : ((Number) value).doubleValue();
            case ARRAY:
                LogicalType element = type.getChildren().get(0);
                value(element, null);
                if (value == null) {
                    return null;
                }
                ArrayData list = (ArrayData) value;
                ArrayData.ElementGetter getter = ArrayData.createElementGetter(element);
                Object[] found = new Object[list.size()];
                for (int i = 0; i < found.length; i++) {
                    found[i] = value(element, getter.getElementOrNull(list, i));
                }
                return Arrays.asList(found);
            default:
                throw new ValidationException("INPUT column of type " + type
                        + ": want text, a whole number, FLOAT, DOUBLE, or an array of text");
        }
    }
}
